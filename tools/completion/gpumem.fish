# SPDX-License-Identifier: GPL-2.0
# Completion of the command gpumem for fish.

function __gpumem_first
	test (count (commandline -opc)) -eq 1
end

function __gpumem_in
	set -l words (commandline -opc)
	test (count $words) -gt 1; and contains -- $words[2] $argv
end

function __gpumem_settings
	gpumem set 2>/dev/null | string replace -r ' .*' '='
end

complete -c gpumem -f
complete -c gpumem -n __gpumem_first -l help -d 'the commands and options'
complete -c gpumem -n __gpumem_first -l version -d 'the versions'
complete -c gpumem -n __gpumem_first -a list -d 'the devices, clients or objects'
complete -c gpumem -n __gpumem_first -a top -d 'devices and clients, once a second'
complete -c gpumem -n __gpumem_first -a watch -d 'allocations that a limit refuses'
complete -c gpumem -n __gpumem_first -a leaks -d 'everything that exists, and what does not add up'
complete -c gpumem -n __gpumem_first -a stat -d 'the clients of processes'
complete -c gpumem -n __gpumem_first -a set -d 'limits and budgets'
complete -c gpumem -n __gpumem_first -a doctor -d 'what is wrong, and what mends it'
complete -c gpumem -n __gpumem_first -a metrics -d 'Prometheus text'
complete -c gpumem -n __gpumem_first -a trace -d 'a timeline of streams and memory'
complete -c gpumem -n __gpumem_first -a fault -d 'let calls of programs fail'
complete -c gpumem -n __gpumem_first -a record -d 'write the calls of CUDA to a trace'
complete -c gpumem -n __gpumem_first -a replay -d 'run a trace again, and compare'
complete -c gpumem -n __gpumem_first -a vm -d 'run a command in a machine that has gpumem'
complete -c gpumem -n __gpumem_first -a cdi -d 'a CDI specification for containers'
complete -c gpumem -n '__gpumem_in list' -a 'clients objects'
complete -c gpumem -n '__gpumem_in cdi' -a generate
complete -c gpumem -n '__gpumem_in cdi' -l libraries -r -F -d 'libraries for the containers'
complete -c gpumem -n '__gpumem_in vm trace record' -a '(__fish_complete_subcommand --fcs-skip=2)'
complete -c gpumem -n '__gpumem_in fault' -a 'run set clear list sweep'
complete -c gpumem -n '__gpumem_in fault' -l calls -x -a 'alloc device host managed pool create ipc copy fill any' -d 'sweep: what fails'
complete -c gpumem -n '__gpumem_in fault' -l cgroup -r -F -d 'processes of a control group'
complete -c gpumem -n '__gpumem_in fault' -l env -x -d 'sweep: processes with this in their environment'
complete -c gpumem -n '__gpumem_in fault' -l error -x -d 'sweep: the result'
complete -c gpumem -n '__gpumem_in fault' -l first -x -d 'sweep: begin with this call'
complete -c gpumem -n '__gpumem_in fault' -l last -x -d 'sweep: end with this call'
complete -c gpumem -n '__gpumem_in fault' -l leaks -d 'sweep: also look for leaks'
complete -c gpumem -n '__gpumem_in fault' -l timeout -x -d 'sweep: when a run hangs'
complete -c gpumem -n '__gpumem_in fault' -s p -l pid -x -a '(__fish_complete_pids)' -d 'a process'
complete -c gpumem -n '__gpumem_in fault' -s j -l json -d 'one JSON document'
complete -c gpumem -n '__gpumem_in trace' -s p -l pid -x -a '(__fish_complete_pids)' -d 'a process'
complete -c gpumem -n '__gpumem_in stat' -a '(__fish_complete_pids)'
complete -c gpumem -n '__gpumem_in set' -a '(__gpumem_settings)'
complete -c gpumem -n '__gpumem_in list top watch stat doctor' -s b -l bytes -d 'sizes in bytes'
complete -c gpumem -n '__gpumem_in list top watch leaks stat set doctor' -s j -l json -d 'one JSON document'
complete -c gpumem -n '__gpumem_in top watch' -s n -l count -x -d 'end after so many'
complete -c gpumem -n '__gpumem_in top watch' -s t -l timestamps -d 'the time in UTC'
complete -c gpumem -n '__gpumem_in top' -s d -l delay -x -d 'seconds between two screens'
complete -c gpumem -n '__gpumem_in top' -s s -l sort -x -a 'memory pinned engine copy streams resident' -d 'order'
complete -c gpumem -n '__gpumem_in stat' -s a -l all -d 'all processes'
complete -c gpumem -n '__gpumem_in metrics' -s c -l clients -d 'of each client, too'
complete -c gpumem -n '__gpumem_in metrics' -l openmetrics -d 'OpenMetrics text'
complete -c gpumem -n '__gpumem_in metrics trace cdi record' -s o -l output -r -F -d 'the file to write'
complete -c gpumem -n '__gpumem_in record' -l tap -d 'behind gpumem'
complete -c gpumem -n '__gpumem_in record' -l preload -d 'in front of any libcuda'
complete -c gpumem -n '__gpumem_in replay' -F
complete -c gpumem -n '__gpumem_in replay' -s j -l json -d 'one JSON document'
complete -c gpumem -n '__gpumem_in replay' -s n -l dry-run -d 'call no driver'
complete -c gpumem -n '__gpumem_in replay' -s p -l pace -d 'as recorded'
complete -c gpumem -n '__gpumem_in replay' -s l -l libcuda -r -F -d 'a driver'
complete -c gpumem -n '__gpumem_in replay' -s r -l report -r -F -d 'a page'
complete -c gpumem -n '__gpumem_in replay' -s t -l timeout -x -d 'seconds of a call'
