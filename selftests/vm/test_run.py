#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Self-test of the runner: it must notice what it promises to notice, and nothing else.

  test_run.py [--kernel NAME] [TEST...]

Prints TAP, then "N passed, N failed, N skipped".  Without GPUMEM_THOROUGH=1, which "make check-matrix" sets, tests that
take long and whose parts others test as well are left out.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from vmlib import Problem, again, initrd, kernels, machine, splat  # noqa: E402

TOP = os.path.dirname(os.path.dirname(HERE))
RUN = os.path.join(HERE, "run")

# mode of splats.c: (what must be shown, exit status, only on debug kernels)
SPLATS = {
    "warn": (r"WARNING: CPU: .* at .*warn\+|WARNING: .*splats\.c", 127, False),
    "oops": (r"NULL pointer dereference|null-ptr-deref", 127, False),
    "refcount": (r"refcount_t: addition on 0", 127, False),
    "sleep-in-atomic": (r"scheduling while atomic|sleeping function called", 127, False),
    "panic": (r"Kernel panic - not syncing: splats: asked to", 126, False),
    "use-after-free": (r"KASAN: slab-use-after-free", 127, True),
    "out-of-bounds": (r"KASAN: slab-out-of-bounds", 127, True),
    "lock-order": (r"possible circular locking dependency", 127, True),
    "lock-kept": (r"lock held when returning", 127, True),
    "shift": (r"UBSAN: shift-out-of-bounds", 127, True),
    "leak": (r"kmemleak: .* new suspected", 127, True),
    "dma": (r"DMA-API: .*device driver", 127, True),
}

# A warning that QEMU without KVM causes while the kernel patches its text at boot.
STALE = """\
[    0.682816] ------------[ cut here ]------------
[    0.684959] WARNING: CPU: 0 PID: 0 at arch/x86/kernel/traps.c:1120 exc_debug_kernel+0xca/0x160
[    0.684959] Modules linked in:
[    0.684959] CPU: 0 UID: 0 PID: 0 Comm: swapper/0 Not tainted 6.12.117+deb12-amd64 #1
[    0.684959] RIP: 0010:exc_debug_kernel+0xca/0x160
[    0.684959] Call Trace:
[    0.684959]  <#DB>
[    0.684959]  ? __warn.cold+0x93/0xfa
[    0.684959]  </#DB>
[    0.684959]  <TASK>
[    0.684959]  </TASK>
[    0.684959] ---[ end trace 0000000000000000 ]---
"""

# A breakpoint that QEMU without KVM ran after the kernel had removed it.
STALE_BREAKPOINT = """\
[ 1734.025240] Oops: int3: 0000 [#1] PREEMPT SMP KASAN NOPTI
[ 1734.025254] CPU: 0 UID: 0 PID: 9 Comm: sh Tainted: G           O       6.12.117-gpumem-debug #1
[ 1734.025294] RIP: 0010:recalc_sigpending+0x12c/0x1b0
[ 1734.025306] Code: 83 09 04 00 00 01 75 2a 65 48 8b 3d 15 e6 ef 7e eb <38> be 08 00 00 00 65 48
[ 1734.025312] Call Trace:
[ 1734.025314]  <TASK>
[ 1734.025776]  </TASK>
[ 1734.026624] ---[ end trace 0000000000000000 ]---
"""

INJECTED = """mark
[  1.0] t_cuda_fail_nth: vmalloc error: size 32768, vm_struct allocation failed, mode:0xdc0
[  1.0] Call Trace:
[  1.0]  <TASK>
[  1.0]  warn_alloc+0x1cb/0x330
[  1.0]  copy_process+0x2898/0x9b70
[  1.0]  </TASK>
"""

# What vivid's thread brings about if it loses the processor after computing its time-out.
LATE = """\
[   10.1] schedule_timeout: wrong timeout value fffffffffffffffd
[   10.1] CPU: 1 UID: 0 PID: 99 Comm: vivid-000-vid-c Not tainted 6.12.117+deb12-amd64 #1
[   10.1] Call Trace:
[   10.1]  <TASK>
[   10.1]  dump_stack_lvl+0x5d/0x80
[   10.1]  schedule_timeout+0x14d/0x160
[   10.1]  vivid_thread_vid_cap+0x5a9/0x8b0 [vivid]
[   10.1]  kthread+0xcf/0x100
[   10.1]  </TASK>
"""

# Modes of splats.c after which a kernel goes on.
HARMLESS = ("warn", "refcount", "sleep-in-atomic")

# (program, its script, expressions that run_kselftest.sh's output must match)
KSELFTEST = [
    ("t_good", "echo 1..1; echo ok 1 a; echo not okay", ()),
    ("t_bad", "echo 1..2; echo ok 1 a; echo not ok 2 b; exit 1", (r"^not ok 2 b$",)),
    ("t_short", "echo 1..3; echo ok 1 a", (r"planned 3 cases and finished 1 \(exit status 0\)",)),
    ("t_mute", "true", (r"t_mute has no TAP plan",)),
    ("t_late", "echo 1..1; (trap '' TERM; sleep 1000)", (r"t_late took more than 10 seconds",)),
    ("t_skip", "echo 1..1; echo 'ok 1 y # SKIP for fun'", (r"t_skip.y skips and is not in",)),
    ("t_status", "echo 1..1; echo ok 1 a; exit 3", (r"t_status: exit status 3 though no",)),
    ("t_warn", "insmod SPLATS mode=warn; echo 1..1; echo ok 1 a",
     (r"t_warn made the kernel complain", r"^# WARNING: .*splats|^# .*warn\+")),
    ("t_last", "printf '1..1\\nok 1 a'", ()),
    ("t_child", "setsid sh -c 'exec sleep 4321' & sleep 1; echo 1..1; echo ok 1 a", ()),
    ("t_after", "echo 1..1; grep -lxz '432[1]' /proc/[0-9]*/cmdline || echo ok 1 a", ()),
    ("t_changes", "echo 1..1; echo N >/sys/module/gpumem/parameters/managed; echo ok 1 a",
     (r"t_changes left the module's parameters changed: managed=N$",)),
    ("t_restored", "echo 1..1; grep -q Y /sys/module/gpumem/parameters/managed && echo ok 1 a", ()),
    ("t_mode", "echo 1..1; [ \"$GPUMEM_X$GPUMEM_Y\" = 12 ] || [ ! \"$GPUMEM_X$GPUMEM_Y\" ] &&"
               " echo ok 1 a", ()),
]

# The same of the demo's test with vivid complaining.
CAMERA = [
    ("t_warns", "camera-warn", (r"t_warns made the kernel complain", r"^# .*WARNING: .*warn_in_camera",
                                r"^# .* vivid_thread_vid_cap\+.*\[vivid\]")),
    ("t_late", "camera-late", (r"t_late made the kernel complain", r"^# .*schedule_timeout: wrong timeout value",
                               r"^# .* vivid_thread_vid_cap\+.*\[vivid\]", r" per second, \d{1,3} lost$")),
    ("t_rests", "none", ()),
]

MIX = """[    1.0] fine
[    2.0] ------------[ cut here ]------------
[    2.0] WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1/0x2
[    2.0] Call Trace:
[    2.0]  <TASK>
[    2.0]  f+0x1/0x2
[    2.0]  </TASK>
[    2.0] ---[ end trace 0000000000000000 ]---
[    3.0] fine
[    4.0] BUG: Bad rss-counter state mm:00 type:MM_FILEPAGES val:1
[    5.0] fine
[    6.0] BUG: sleeping function called from invalid context at b.c:2
[    6.0] Call Trace:
[    6.0]  g+0x1/0x2
"""


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def want(condition, text, *output):
    if not condition:
        raise Failure("\n".join((text,) + output))


def command_name(pid):
    """The name of the process @pid, or None."""
    try:
        with open("/proc/%d/comm" % pid, "rb") as f:
            return f.read()
    except OSError:
        return None


def descendants(pid):
    """{process: its name} of all that @pid started, directly or not."""
    found = {}
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as f:
            for child in map(int, f.read().split()):
                found[child] = command_name(child)
                found.update(descendants(child))
    return found


def left_out():
    if not os.environ.get("GPUMEM_THOROUGH"):
        raise Skip("left out: GPUMEM_THOROUGH is not set")


class Tests:
    def __init__(self, kernel, work):
        self.kernel, self.work, self.built = kernel, work, None
        self.memo = {}

    def once(self, what):
        """What @what() returned the first time: some tests look at one guest."""
        if what not in self.memo:
            self.memo[what] = what()
        return self.memo[what]

    def vm(self, *args, cwd=None):
        """(exit status, standard output, standard error) of one run."""
        r = subprocess.run([RUN, "--kernel", self.kernel] + list(args), cwd=cwd or self.work,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                           stdin=subprocess.DEVNULL)
        return r.returncode, r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")

    def splats(self):
        """splats.ko for the kernel, built once, in a directory of its own."""
        if not self.built:
            where = os.path.join(self.work, "splats")
            os.mkdir(where)
            shutil.copy(os.path.join(HERE, "splats.c"), where)
            with open(os.path.join(where, "Kbuild"), "w", encoding="ascii") as f:
                f.write("obj-m := splats.o\n")
            r = subprocess.run([os.path.join(HERE, "kernel"), "--make", "-s", "-C",
                                kernels.get(self.kernel).kdir, "M=" + where,
                                "modules"], check=False, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
            want(r.returncode == 0, "splats.ko does not build", r.stdout.decode())
            self.built = os.path.join(where, "splats.ko")
        return self.built

    def harmless(self):
        """Complaints after which a kernel goes on, in one guest."""
        script = "for m in %s; do insmod %s mode=$m; rmmod splats; done" % (" ".join(HARMLESS),
                                                                          self.splats())
        return self.vm("--no-leak-scan", "--", "sh", "-c", script)

    def splat(self, mode):
        pattern, status, debug = SPLATS[mode]
        if debug and "debug" not in self.kernel:
            raise Skip("only a debug kernel notices")
        if mode in HARMLESS and not debug:
            rc, out, err = self.once(self.harmless)
        else:
            rc, out, err = self.vm("--leak-scan" if mode == "leak" else "--no-leak-scan", "--",
                                   "insmod", self.splats(), "mode=" + mode)
        want(rc == status, "exit status %d, not %d" % (rc, status), out, err)
        want(re.search("^ *> .*(?:%s)" % pattern, err, re.M), "the complaint is not shown", err)

    def test_status_and_output(self):
        script = "echo one; echo two >&2; printf 'a\\r\\n\\0\\377z'; pwd; id -u; exit 7"
        rc, out, err = self.vm("--", "sh", "-c", script)
        want(rc == 7, "exit status %d, not 7" % rc, err)
        want(out == "one\ntwo\na\r\n\0\ufffdz%s\n0\n" % self.work, "output: %r" % out)
        want("complained" not in err, "a false alarm", err)

    def test_killed_by_signal(self):
        rc, _, err = self.vm("--", "sh", "-c", "kill -SEGV $$")
        want(rc == 128 + 11, "exit status %d, not 139" % rc, err)

    def test_no_such_command(self):
        rc, out, err = self.vm("--", "/no/such/command")
        want(rc == 127 and "not found" in out, "exit status %d" % rc, out, err)

    def test_output_streams(self):
        with subprocess.Popen([RUN, "--kernel", self.kernel, "--", "sh", "-c",
                               "echo early; sleep 4; echo late"], cwd=self.work,
                              stdout=subprocess.PIPE) as p:
            p.stdout.readline()
            early = time.monotonic()
            want(p.stdout.readline() == b"late\n", "no second line")
            gap = time.monotonic() - early
        want(gap > 1, "both lines came within %.1f s" % gap)

    def all_is_well(self):
        """One guest for what can be seen of one that succeeds."""
        script = """set -e
echo secret-word >/dev/kmsg
head -c 3000000 /dev/zero >"$2/f"
insmod "$3"
cd /
for d in /proc /sys /dev/shm /dev/pts /run /tmp /sys/kernel/debug /sys/kernel/tracing \
	/sys/fs/cgroup; do
	mountpoint -q $d || { echo "not mounted: $d"; exit 1; }
done
[ -e /sys/fs/cgroup/cgroup.controllers ]
[ -e /sys/class/net/lo/flags ] && [ $(($(cat /sys/class/net/lo/flags) & 1)) = 1 ]
modprobe loop; grep -q '^loop ' /proc/modules
touch /etc/scratch "$1/scratch"; setpriv --reuid nobody --clear-groups id -un
! setpriv --reuid nobody --clear-groups touch /etc/scratch 2>/dev/null"""
        out = os.path.join(self.work, "out dir")
        return self.vm("--load", "configfs", "--out", out, "--console",
                       os.path.join(self.work, "log"), "--", "sh", "-c", script, "sh", self.work,
                       out, self.splats())

    def test_guest(self):
        rc, out, err = self.once(self.all_is_well)
        want(rc == 0 and out == "nobody\n", "exit status %d" % rc, out, err)
        want(not os.path.exists(os.path.join(self.work, "scratch")), "a scratch file came out")

    def test_files_come_back(self):
        rc, _, err = self.once(self.all_is_well)
        want(rc == 0, "exit status %d" % rc, err)
        want(os.path.getsize(os.path.join(self.work, "out dir", "f")) == 3000000,
             "the file is not whole")

    def test_clean_module(self):
        rc, _, err = self.once(self.all_is_well)
        want(rc == 0 and "complained" not in err, "exit status %d" % rc, err)

    def test_console_file(self):
        rc, out, err = self.once(self.all_is_well)
        want(rc == 0 and "secret" not in out, "exit status %d" % rc, out, err)
        with open(os.path.join(self.work, "log"), "rb") as f:
            want(b"secret-word" in f.read(), "the kernel's log is not in the file")

    def test_below_tmp(self):
        """A directory below /tmp is seen and can be written to; the rest of /tmp is new."""
        with tempfile.TemporaryDirectory(prefix="gpumem-test-vm.", dir="/tmp") as top:
            where, other = os.path.join(top, "work dir"), os.path.join(top, "other")
            os.mkdir(where)
            for path in (os.path.join(where, "f"), other):
                with open(path, "w", encoding="ascii") as f:
                    f.write("here\n")
            script = """set -e
mountpoint -q /tmp
[ "$(stat -c %a /tmp)" = 1777 ]
top=${1#not a path: }
cat f; cat "$top/work dir/f"
[ ! -e "$top/other" ]
touch scratch /tmp/scratch"""
            rc, out, err = self.vm("--", "sh", "-c", script, "sh", "not a path: " + top,
                                   cwd=where)
            want(rc == 0 and out == "here\nhere\n", "exit status %d" % rc, out, err)
            want(os.listdir(where) == ["f"], "a scratch file came out")

    def test_timeout(self):
        start = time.monotonic()
        rc, out, err = self.vm("--timeout", "3", "--", "sh", "-c", "echo begun; sleep 1000")
        want(rc == 124 and out == "begun\n", "exit status %d" % rc, out, err)
        want("time-out after 3 s" in err and "] " in err, "no kernel lines shown", err)
        want(time.monotonic() - start < 60, "too late")

    def test_killed_runner(self):
        """A guest does not outlive its runner, even one that was killed."""
        with subprocess.Popen([RUN, "--kernel", self.kernel, "--", "sh", "-c",
                               "echo up; sleep 1000"], cwd=self.work, stdout=subprocess.PIPE) as p:
            want(p.stdout.readline() == b"up\n", "no guest")
            with open("/proc/%d/task/%d/children" % (p.pid, p.pid), encoding="ascii") as f:
                guests = f.read().split()
            p.kill()
        want(guests, "the runner has no child")
        time.sleep(1)
        want(not any(os.path.exists("/proc/%s/exe" % g) for g in guests), "the guest lives on")

    def test_ended_client(self):
        """A program of selftests/interop that is ended by SIGTERM ends its guest, too."""
        script = """import sys
sys.path.insert(0, sys.argv[1])
import client
for line in client.guest(["sh", "-c", "echo up; sleep 1000"], "--mem", "1G", "--cpus", "1", vram="64M"):
    print(line, flush=True)
"""
        with subprocess.Popen([sys.executable, "-B", "-c", script, os.path.join(TOP, "selftests/interop")],
                              cwd=self.work, stdout=subprocess.PIPE, env=dict(os.environ, VM_KERNEL=self.kernel)) as p:
            line = p.stdout.readline()
            below = descendants(p.pid)
            p.terminate()
            status = p.wait(60)
        want(line == b"up\n", "no guest: %s" % line)
        want(any(b"qemu" in name for name in below.values()), "no QEMU: %s" % below)
        want(status == 143, "exit status %d" % status)
        time.sleep(1)
        alive = {pid: name for pid, name in below.items() if command_name(pid) == name}
        want(not alive, "what lives on: %s" % alive)

    def test_ended_client_at_once(self):
        """The same, by a signal that comes while the client starts the runner."""
        script = """import os, signal, subprocess, sys
sys.path.insert(0, sys.argv[1])
import client
class Early(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        print(self.pid, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
client.subprocess.Popen = Early
for line in client.guest(["sleep", "1000"], "--mem", "1G", "--cpus", "1", vram="64M"):
    print(line, flush=True)
"""
        with subprocess.Popen([sys.executable, "-B", "-c", script, os.path.join(TOP, "selftests/interop")],
                              cwd=self.work, stdout=subprocess.PIPE, env=dict(os.environ, VM_KERNEL=self.kernel)) as p:
            runner = int(p.stdout.readline())
            status = p.wait(60)
        want(status == 143, "exit status %d" % status)
        end, program = time.monotonic() + 10, "/proc/%d/exe" % runner
        while os.path.exists(program) and time.monotonic() < end:
            time.sleep(0.1)
        alive = os.path.exists(program)
        if alive:
            os.kill(runner, signal.SIGTERM)
        want(not alive, "the runner lives on")

    def test_hard_hang(self):
        left_out()
        rc, _, err = self.vm("--timeout", "5", "--cpus", "1", "--", "insmod", self.splats(),
                             "mode=hang")
        want(rc == 124 and "time-out after 5 s" in err, "exit status %d" % rc, err)

    def test_expect(self):
        rc, _, err = self.vm("--expect", "at .*splats|warn\\+", "--", "insmod", self.splats(),
                             "mode=warn")
        want(rc == 0, "exit status %d" % rc, err)

    def demos_expect(self):
        """What the demos and their test forgive."""
        found = set()
        for path in ("tools/demo/run", "tools/demo/cluster", "selftests/host/demo_cluster.sh"):
            with open(os.path.join(TOP, path), encoding="utf-8") as f:
                found.update(re.findall(r"--expect '(.*?)'", f.read()) or [path])
        want(len(found) == 1, "expressions: %s" % found)
        return found.pop()

    def test_expect_camera(self):
        """The demos forgive that vivid's thread is late, and nothing else that this thread does."""
        e = self.demos_expect()
        warning = "WARNING: CPU: 1 PID: 99 at a.c:1 f+0x1/0x2"
        for text, forgiven in ((LATE, True), (LATE + MIX, False), (LATE.replace("vivid_", "gpumem_"), False),
                               (re.sub("schedule_timeout: .*", warning, LATE), False),
                               (re.sub(r" CPU: .*", " BUG: KASAN: slab-use-after-free in f+0x1/0x2", LATE), False)):
            lines = splat.text_lines(text.encode())
            want(splat.find(lines), "no complaint in", text)
            want(forgiven == (not splat.find(lines, [e])), "forgiven" if not forgiven else "not forgiven", text)

    def needs_camera(self):
        if "debug" in self.kernel:
            raise Skip("the debug kernel has no kprobes")
        if "cloud" in self.kernel:
            raise Skip("cloud kernels have no vivid")

    def camera(self, mode):
        """vivid writes some frames, and its thread complains as @mode of splats.c says."""
        self.needs_camera()
        script = """set -e
modprobe vivid n_devs=1 node_types=0x1
insmod "$1" mode=%s
v4l2-ctl --stream-mmap=3 --stream-count=6 --stream-to=/dev/null >&2""" % mode
        return self.vm("--expect", self.demos_expect(), "--console", os.path.join(self.work, "log"), "--",
                       "sh", "-c", script, "sh", self.splats())

    def test_camera_is_late(self):
        left_out()
        rc, out, err = self.camera("camera-late")
        want(rc == 0 and "complained" not in err, "exit status %d" % rc, out, err)
        with open(os.path.join(self.work, "log"), "rb") as f:
            want(b"schedule_timeout: wrong timeout" in f.read(), "the camera was not late")

    def test_camera_warns(self):
        rc, out, err = self.camera("camera-warn")
        want(rc == 127 and re.search(r"^ *> .* vivid_thread_vid_cap\+", err, re.M), "exit status %d" % rc, out, err)

    def test_bad_use(self):
        rc, _, err = self.vm("--load", "no_such_module", "--", "true")
        want(rc == 125 and "no_such_module" in err, "exit status %d" % rc, err)
        r = subprocess.run([RUN, "--kernel", "no-such", "--", "true"], check=False,
                           stderr=subprocess.PIPE)
        want(r.returncode == 125 and b"no kernel is called" in r.stderr, "unknown kernel")

    def test_missing_programs(self):
        env = dict(os.environ, PATH="/nonexistent")
        r = subprocess.run([sys.executable, RUN, "--", "true"], env=env, check=False,
                           stderr=subprocess.PIPE)
        want(r.returncode == 125 and r.stderr.count(b"\n") == 1 and b"apt-get install" in r.stderr,
             "exit status %d" % r.returncode, r.stderr.decode())

    def test_icount_repeats(self):
        source = os.path.join(self.work, "count.c")
        with open(source, "w", encoding="ascii") as f:
            f.write("""#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
	for (int i = 0; i < 20; i++) {
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int n = 0; n < 1000; n++)
			getppid();
		free(malloc(1 << 20));
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("%lld\\n", (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec);
	}
	return 0;
}
""")
        subprocess.run(["gcc", "-O2", "-o", "count", source], cwd=self.work, check=True)
        first = self.vm("--icount", "--", "./count")
        second = self.vm("--icount", "--", "./count")
        want(first[0] == 0 and first[1].count("\n") == 20, "exit status %d" % first[0], *first[1:])
        want(first[1] == second[1], "two runs differ:", first[1], second[1])

    def test_words_come_in_pieces(self):
        guest = types.SimpleNamespace(words=bytearray())
        for piece, rc in ((b"set\nr", None), (b"c ", None), (b"1", None), (b"26\r\n", "126")):
            guest.words += piece
            want(machine.Machine.word(guest, "rc") == rc, "rc after %r" % bytes(guest.words))
        want(machine.Machine.word(guest, "set") == "", "set")

    def test_splat_blocks(self):
        lines = splat.text_lines(MIX.encode())
        want(splat.find(lines) == [(1, 7), (9, 9), (11, 12)], "blocks: %s" % splat.find(lines))
        want(splat.find(lines, ["a.c:1"]) == [(9, 9), (11, 12)], "forgiving one forgives others")
        want(not splat.find(lines, ["a.c:1", "rss-counter", "b.c:2"]), "not forgiven")

    def test_injected_is_no_splat(self):
        lines = splat.text_lines(INJECTED.encode())
        want(not splat.find(lines), "blocks: %s" % splat.find(lines))
        for old, new in ((" copy_process", " load_module"), ("t_cuda_fail_nth", "insmod"),
                         (" warn_alloc", " BUG: KASAN: "), ("</TASK>", "")):
            found = splat.find(splat.text_lines(INJECTED.replace(old, new).encode()))
            want(found, "nothing is found with %s for %s" % (new, old))
        want(splat.find(splat.text_lines((INJECTED + MIX).encode())), "what follows is not found")
        with open(os.path.join(HERE, "../run_kselftest.sh"), encoding="utf-8") as f:
            script = re.search(r"^without_injected.*?^\}\n", f.read(), re.S | re.M).group(0)
        for text, left in ((INJECTED, "mark\n"), (INJECTED + MIX, "mark\n" + MIX)):
            out = subprocess.run(["bash", "-c", script + "without_injected"], input=text.encode(),
                                 stdout=subprocess.PIPE, check=True).stdout.decode()
            want(out == left, "left:", out)

    def test_stale_trap_is_no_splat(self):
        want(not splat.find(splat.text_lines(STALE.encode())), "QEMU's stale trap is a splat")
        for old, new in (("PID: 0 at", "PID: 9 at"), ("exc_debug_kernel+", "exc_page_fault+"),
                         ("swapper/0", "insmod"), ("RIP:", "BUG: KASAN: RIP:")):
            want(splat.find(splat.text_lines(STALE.replace(old, new).encode())),
                 "nothing is found with %s for %s" % (new, old))
        want(splat.find(splat.text_lines((STALE + MIX).encode())), "what follows is not found")

    def test_stale_breakpoint(self):
        want(splat.stale_breakpoint(splat.text_lines(STALE_BREAKPOINT.encode())),
             "QEMU's stale breakpoint is not known")
        for text in (STALE_BREAKPOINT.replace(" eb <38>", " cc <38>"), MIX + STALE_BREAKPOINT,
                     STALE_BREAKPOINT.replace("int3", "0002"), ""):
            want(not splat.stale_breakpoint(splat.text_lines(text.encode())), "one in:", text)

    def test_again(self):
        """Which failures run once more."""
        def step(name, *failures):
            return types.SimpleNamespace(name=name, failures=list(failures), count=[9, len(failures), 0])

        case = "t_rdma_life: not ok 7 life.freed (rdma/t_rdma_life.c:147:freed:Expected 0 (0) == 1 (1))"
        mode = "t_event (GPUMEM_INLINE=0): not ok 2 event.order"
        late = "not ok t_pool took more than 300 seconds"
        debug, host = step("kselftest-debug", case, case, mode), step("host/numa_guest", "not ok 3 node_full")
        want(again.plan([debug, host]) == [(debug, {"t_rdma_life", "t_event"}), (host, None)], "not repeated")
        want(again.plan([step("kselftest", late)])[0][1] == {"t_pool"}, "a program that is late")
        for line in ("not ok t_pool made the kernel complain:", "not ok t_pool left something behind: bos 1",
                     "not ok t_pool left the module's parameters changed: devices=2",
                     "not ok t_pool.case skips and is not in skips.tsv", "not ok kselftest: exit status 1",
                     "not ok the kernel complained after the last program:"):
            want(not again.plan([step("kselftest", case, line)]), "repeated in spite of", line)
        want(not again.plan([step("host/docs", "not ok not in selftests/skips.tsv: host/docs.x")]), "an unlisted skip")
        want(not again.plan([debug, host, step("rdma/between", "not ok 1 x")]), "four programs are repeated")
        want(not again.plan([step("kselftest", *[case] * 7)]), "seven failures are repeated")
        hidden = step("kselftest", case)
        hidden.count[1] = 2
        want(not again.plan([hidden]), "a failure that was not printed")

    def test_kselftest(self):
        """run_kselftest.sh on programs whose verdict is known."""
        out = self.kselftest("kselftest", KSELFTEST, "*\tt_mode\tGPUMEM_X=1\tGPUMEM_Y=2\n", "GPUMEM_TIMEOUT=10")
        want("\n# t_mode (GPUMEM_X=1 GPUMEM_Y=2)\n" in out, "no other mode", out)
        want(out.endswith("\n12 passed, 8 failed, 0 skipped\n"), "the sum is wrong", out)

    def test_kselftest_camera(self):
        """A complaint of vivid's thread fails the test that uses the camera, and says where it is from."""
        left_out()
        self.needs_camera()
        script = """modprobe vivid n_devs=1 node_types=0x1
insmod SPLATS mode=%%s
%s/selftests/tools/t_demo.sh
rc=$?
rmmod splats
exit $rc""" % TOP
        out = self.kselftest("camera", [(name, script % mode, said) for name, mode, said in CAMERA],
                             "no-kernel\tt_rests\tGPUMEM_X=1\n", "GPUMEM_QUICK=1", "GPUMEM_TIMEOUT=300")
        want(out.endswith(" passed, 2 failed, 0 skipped\n"), "the sum is wrong", out)

    def kselftest(self, where, programs, modes, *variables):
        """Run @programs, as those of KSELFTEST, by run_kselftest.sh in a guest; some make the kernel complain.

        @modes: the text of modes.tsv.
        """
        build = os.path.abspath(os.environ.get("BUILD", os.path.join(TOP, "build")))
        where = os.path.join(self.work, where)
        os.mkdir(where)
        for name, script, _ in programs:
            with open(os.path.join(where, name), "w", encoding="ascii") as f:
                f.write("#!/bin/sh\n%s\n" % script.replace("SPLATS", self.splats()))
            os.chmod(os.path.join(where, name), 0o755)
        with open(os.path.join(where, "kselftest-list.txt"), "w", encoding="ascii") as f:
            f.write("".join("gpumem:%s\n" % k[0] for k in programs))
        for name in ("run_kselftest.sh", "settings", "skips.tsv"):
            shutil.copy(os.path.join(HERE, "..", name), where)
        with open(os.path.join(where, "modes.tsv"), "w", encoding="ascii") as f:
            f.write(modes)
        rc, out, err = self.vm("--mem", "4G", "--insmod", "--", "env", *variables, "BUILD=" + build,
                               os.path.join(where, "run_kselftest.sh"))
        want(rc == 127, "exit status %d, not 127" % rc, out, err)
        at = -1
        for name, _, said in programs:
            begin = out.find("# %s\n" % name)
            want(begin > at, "%s did not run" % name, out)
            at = begin
            text = out[begin:out.find("# t_", out.find("seconds\n", begin))]
            for line in said:
                want(re.search(line, text, re.M), "%s: no %s" % (name, line), text)
            want(said or not re.search("^not ok ", text, re.M), "%s: a false alarm" % name, text)
        return out

    def guests(self, number, script, *options):
        """One run of @script on several small guests, with splats.ko as $1."""
        return self.vm("--guests", str(number), "--cpus", "1", "--mem", "1G", "--no-leak-scan", *options,
                       "--", "sh", "-c", script, "sh", self.splats())

    def guests_meet(self, number):
        """Every guest sends to every other one, and its last bytes arrive though it ended."""
        out = os.path.join(self.work, "shared %d" % number)
        script = """set -e
echo "$GPUMEM_RANK/$GPUMEM_GUESTS $GPUMEM_ADDRESS [$GPUMEM_PEERS] $(hostname)"
echo "kernel-of-$GPUMEM_RANK" >/dev/kmsg
echo "$GPUMEM_RANK" >"$GPUMEM_OUT/file$GPUMEM_RANK"
b=/run/vm/busybox
if [ $GPUMEM_RANK = 0 ]; then
	# A standard input that does not end: nc would tell the other end, which would end at once.
	mkfifo fifo; exec 4<>fifo
	for peer in $GPUMEM_PEERS; do
		$b nc -l -p 5000 <&4 >got
		wc -c <got; cat got | tr -d '\\0'
	done
	$b ping -c 1 -q -s 6000 guest1 >/dev/null
	printf 'no newline'
else
	sleep 1
	until { head -c 1000000 /dev/zero; echo "from $GPUMEM_RANK"; } | $b nc guest0 5000; do sleep 1; done
fi"""
        os.environ["GPUMEM_OUT"] = out
        try:
            rc, text, err = self.guests(number, script, "--out", out, "--console",
                                        os.path.join(self.work, "log"))
        finally:
            del os.environ["GPUMEM_OUT"]
        want(rc == 0 and "complained" not in err, "exit status %d" % rc, text, err)
        address = ["10.71.80.%d" % (n + 1) for n in range(number)]
        lines = text.split("\n")
        for n in range(number):
            peers = " ".join(a for a in address if a != address[n])
            line = "%d: %d/%d %s [%s] guest%d" % (n, n, number, address[n], peers, n)
            want(line in lines, "no line %s" % line, text)
            want("guest %d: exit status 0" % n in err, "guest %d has no status" % n, err)
            with open(os.path.join(out, "file%d" % n), encoding="ascii") as f:
                want(f.read() == "%d\n" % n, "file %d" % n)
            with open(os.path.join(self.work, "log.%d" % n), "rb") as f:
                want(b"kernel-of-%d" % n in f.read(), "the log of guest %d" % n)
        for n in range(1, number):
            want("0: from %d" % n in lines, "guest %d did not arrive" % n, text)
        want(lines.count("0: 1000007") == number - 1, "bytes are missing", text)
        want("0: no newline\n" in text and all(re.match(r"\d: |$", x) for x in lines),
             "a line without rank", text)

    def test_guests_meet(self):
        self.guests_meet(2)

    def test_guests_meet_at_a_hub(self):
        left_out()
        self.guests_meet(3)

    def test_guests_one_fails(self):
        start = time.monotonic()
        rc, out, err = self.guests(2, "[ $GPUMEM_RANK = 1 ] && exit 7; echo waits; sleep 1000")
        want(rc == 7 and out == "0: waits\n", "exit status %d" % rc, out, err)
        want("guest 1: exit status 7" in err and "guest 0: exit status" not in err
             and re.search(r"guest 0: ended \d+ s after guest 1 had failed", err), "who failed?", err)
        want(time.monotonic() - start < 200, "too late")

    def test_guests_one_dies(self):
        # Guest 0 starts no program any more: its disk may go before its power.
        rc, out, err = self.guests(2, "[ $GPUMEM_RANK = 0 ] || exec sleep 1000;"
                                   " echo o >/proc/sysrq-trigger; while :; do :; done")
        want(rc == 126 and "guest 0: the guest died" in err
             and re.search(r"guest 1: ended \d+ s after guest 0 had failed", err),
             "exit status %d" % rc, out, err)

    def test_guests_peer_may_end(self):
        """The others have some time when a guest failed, and what they do then is reported."""
        left_out()
        rc, out, err = self.guests(2, "[ $GPUMEM_RANK = 0 ] && exit 3; sleep 4; echo later; exit 4")
        want(rc == 3 and out == "1: later\n" and "guest 1: exit status 4" in err,
             "exit status %d" % rc, out, err)

    def test_guests_splat(self):
        rc, out, err = self.guests(2, '[ $GPUMEM_RANK = 0 ] || insmod "$1" mode=warn')
        want(rc == 127 and "guest 1: the kernel complained" in err and "guest 0: exit status 0" in err,
             "exit status %d" % rc, out, err)

    def test_guests_timeout(self):
        left_out()
        rc, out, err = self.guests(2, "[ $GPUMEM_RANK = 0 ] || sleep 1000", "--timeout", "5")
        want(rc == 124 and "guest 1: time-out after 5 s" in err and "guest 0: exit status 0" in err
             and "guest 0: time-out" not in err, "exit status %d" % rc, out, err)

    def test_guests_of_two_runs(self):
        """Two runs at a time: the same addresses, and nothing of one arrives at the other."""
        left_out()
        script = """b=/run/vm/busybox
if [ $GPUMEM_RANK = 0 ]; then $b nc -l -p 5000; sleep 5
else sleep 1; until echo "$GPUMEM_RUN" | $b nc guest0 5000; do sleep 1; done; fi"""
        runs = []
        for name in ("one", "two"):
            runs.append((name, subprocess.Popen(
                [RUN, "--kernel", self.kernel, "--guests", "2", "--cpus", "1", "--mem", "1G", "--", "sh",
                 "-c", script], cwd=self.work, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                env=dict(os.environ, GPUMEM_RUN=name))))
        for name, p in runs:
            text = p.communicate()[0].decode()
            want(p.returncode == 0 and text == "0: %s\n" % name, "%s: exit status %d" % (
                name, p.returncode), text)

    def test_guests_bad_use(self):
        for options, said in ((["--guests", "0"], "1 to "), (["--guests", "9"], "1 to "),
                              (["--guests", "2", "--icount"], "needs a network")):
            rc, out, err = self.vm(*options, "--", "true")
            want(rc == 125 and said in err, "%s: exit status %d" % (options, rc), out, err)

    def test_cpio_is_stable(self):
        def make():
            c = initrd.Cpio()
            c.host_file(RUN)
            c.file("a/b", b"x")
            return c.finish()
        want(make() == make(), "two archives differ")

    def every(self):
        tests = [(n[5:].replace("_", "-"), getattr(self, n)) for n in dir(self)
                 if n.startswith("test_")]
        return tests + [("splat-" + m, lambda m=m: self.splat(m)) for m in SPLATS]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--kernel", default=kernels.DEFAULT)
    ap.add_argument("tests", nargs="*", metavar="TEST")
    o = ap.parse_args()
    work = tempfile.mkdtemp(prefix="gpumem-test-vm.", dir=os.environ.get("TMPDIR", "/var/tmp"))
    passed = failed = skipped = 0
    try:
        tests = [t for t in Tests(o.kernel, work).every() if not o.tests or t[0] in o.tests]
        print("TAP version 13\n1..%d" % len(tests), flush=True)
        for number, (name, run) in enumerate(tests, 1):
            try:
                run()
            except Skip as e:
                skipped += 1
                print("ok %d %s # SKIP %s" % (number, name, e), flush=True)
            except (Failure, Problem, OSError, subprocess.CalledProcessError) as e:
                failed += 1
                print("not ok %d %s" % (number, name))
                for line in str(e).rstrip().split("\n"):
                    print("# " + line)
                sys.stdout.flush()
            else:
                passed += 1
                print("ok %d %s" % (number, name), flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or not passed else 0


sys.exit(main())
