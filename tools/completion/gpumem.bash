# SPDX-License-Identifier: GPL-2.0
# Completion of the command gpumem for bash.

_gpumem()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i words

	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} != -* ]]; then
			command=${COMP_WORDS[i]}
			break
		fi
	done
	if [[ $command == vm || ($command == record && $word != -* && $before != -o && $before != --output) ]]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
		return
	fi
	case $before in
	-s | --sort)
		mapfile -t COMPREPLY < <(compgen -W "memory pinned engine copy streams resident" -- "$word")
		return ;;
	-o | --output | -r | --report | -l | --libcuda)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return ;;
	-n | --count | -d | --delay | --timeout)
		return ;;
	-p | --pid)
		mapfile -t COMPREPLY < <(cd /proc && compgen -G "$word[0-9]*" && compgen -G "$word")
		return ;;
	esac
	case $command in
	'') words="list top watch leaks stat set doctor metrics trace fault record replay vm cdi --help --version" ;;
	list) words="clients objects --bytes --json" ;;
	top) words="--bytes --count --delay --json --sort --timestamps" ;;
	watch) words="--bytes --count --json --timestamps" ;;
	leaks) words="--json" ;;
	stat) words="--all --bytes --json $(cd /proc && compgen -G '[0-9]*')" ;;
	set)
		# Bash splits words at "=": no value is completed.
		words="--json $(gpumem set 2>/dev/null | while read -r name _; do echo "$name="; done)"
		compopt -o nospace ;;
	doctor) words="--bytes --json" ;;
	metrics) words="--clients --openmetrics --output" ;;
	trace) words="--output --pid" ;;
	fault)
		words="run set clear list sweep --calls --cgroup --env --error --first --json --last --leaks --pid"
		words+=" --timeout" ;;
	record) words="--output --preload --tap" ;;
	replay)
		words="--dry-run --json --libcuda --pace --report --timeout"
		if [[ $word != -* ]]; then
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
			return
		fi ;;
	cdi) words="generate --libraries --output" ;;
	*) words='' ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _gpumem gpumem
