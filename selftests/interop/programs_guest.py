#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The part of programs that runs in the virtual machine, in the disk with the programs.

  programs_guest.py BUILD [WORD...]

Prints "ok - PROGRAM CASE" or "not ok - PROGRAM CASE" for each case.  After the programs every counter of
/sys/class/gpumem is what it was.
"""
import fcntl
import glob
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import client  # noqa: E402

MIB = 1 << 20
SECONDS = 600
NAME = "gpumem software GPU (cpu)"
# Numba's tests of its driver layer that compile no kernels.
NUMBA = ("array_attr", "context_stack", "cuda_array_slicing", "cuda_auto_context", "cuda_devicerecord",
         "cuda_memory", "cuda_ndarray", "deallocations", "emm_plugins", "events", "host_alloc",
         "managed_alloc", "pinned", "profiler", "reset_device", "select_device", "streams")
# It asks for cuCtxGetDevice_v2 as for any function of that name, which from CUDA 13 on has another argument.
GENERATION = {"numba": "cuda12"}


def environment(program):
    build = sys.argv[1]
    path = [os.path.join(build, "compat", GENERATION.get(program, "")), os.path.join(build, "compat")]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(path), LC_ALL="C.UTF-8", HOME="/tmp",
                PYTHONDONTWRITEBYTECODE="1")


def output(program, *command):
    """(exit status, output) of a program."""
    r = subprocess.run(["timeout", str(SECONDS), *command], env=environment(program), check=False,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       encoding="utf-8", errors="replace", cwd="/tmp")
    return r.returncode, r.stdout


def screen(seconds, until, command, **more):
    """(exit status, text) of a program on a terminal of 60 lines: what it drew in @seconds, or until the expression
    @until matches; then the key q ends it."""
    pid, terminal = pty.fork()
    if not pid:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 160, 0, 0))
            os.execvpe(command[0], command, dict(environment(command[0]), TERM="xterm-256color", **more))
        finally:
            os._exit(127)
    text, end, status = "", time.monotonic() + seconds, None
    while status is None and time.monotonic() < end + 60:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                pass
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        if time.monotonic() > end or re.search(until, plain, re.S):
            os.write(terminal, b"q")
        gone, code = os.waitpid(pid, os.WNOHANG)
        if gone:
            status = os.waitstatus_to_exitcode(code)
    if status is None:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    os.close(terminal)
    return status, plain


def told(program, cases, text):
    """Report the {case: result} of a program, and show what it said when one of them failed."""
    for case, good in cases.items():
        client.report(good, program, case)
    if not all(cases.values()):
        client.show(text, 60)


def devices():
    """The bytes of memory of each device, as the module says."""
    sizes = []
    for path in sorted(glob.glob("/sys/class/gpumem/gpumem*/size")):
        with open(path, encoding="ascii") as f:
            sizes.append(int(f.read()))
    return sizes


def lstopo():
    status, text = output("lstopo", "lstopo-no-graphics", "-v", "--only", "osdev")
    cuda = re.findall(r'Co-Processor\(CUDA\).*GPUModel="(.*?)" CUDAGlobalMemorySize=(\d+) .*"cuda\d"', text)
    nvml = re.findall(r'GPU\(NVML\).*GPUModel="(.*?)" NVIDIAUUID=(\S+)\) "nvml\d"', text)
    told("lstopo", {
        "ends": status == 0,
        "cuda": cuda == [(NAME, str(size // 1024)) for size in devices()],
        "nvml": [n for n, _ in nvml] == [NAME] * 2 and len({u for _, u in nvml}) == 2}, text)


HOLDER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 1)
assert not cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(300 << 20))
print("holds", flush=True)
sys.stdin.read()
"""


def watchers():
    """nvtop and gpustat while a process holds 300 MiB of the second device."""
    with subprocess.Popen(["python3", "-c", HOLDER], env=environment(""), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, encoding="ascii") as holder:
        if holder.stdout.readline() != "holds\n":
            client.report(False, "gpustat", "ends")
            return
        status, text = output("gpustat", "gpustat", "--json")
        gpus = json.loads(text)["gpus"] if status == 0 else [{}, {}]
        told("gpustat", {
            "ends": status == 0,
            "memory": [g.get("memory.total") for g in gpus] == [s // MIB for s in devices()] and
            gpus[0]["memory.used"] < 100 <= 300 <= gpus[1]["memory.used"] < 400,
            "processes": [(p["pid"], 300 <= p["gpu_memory_usage"] < 400)
                          for p in gpus[1].get("processes", ())] == [(holder.pid, True)]}, text)
        status, text = output("nvtop", "nvtop", "-s")
        gpus = json.loads(text) if status == 0 else [{}, {}]
        told("nvtop", {
            "ends": status == 0,
            "names": [g.get("device_name") for g in gpus] == [NAME] * 2,
            "memory": [int(g.get("mem_util", "-1%")[:-1]) for g in gpus] in (
                [0, 29], [0, 30])}, text)
        ends = names = True
        for device in range(2):
            with tempfile.TemporaryDirectory() as home:
                os.mkdir(os.path.join(home, "btop"))
                with open(os.path.join(home, "btop/btop.conf"), "w", encoding="ascii") as f:
                    f.write('shown_boxes = "gpu%d"\nupdate_ms = 1000\ncheck_temp = False\n' % device)
                status, text = screen(60, re.escape(NAME[:10]), ["btop", "--utf-force"], XDG_CONFIG_HOME=home)
            ends, names = ends and status == 0, names and NAME[:10] in text
        told("btop", {"ends": ends, "names": names}, text)
        holder.stdin.close()


def exporter():
    """Debian's node exporter serves what gpumem wrote."""
    served, where = "", "http://127.0.0.1:9100/metrics"
    with tempfile.TemporaryDirectory() as work:
        status, text = output("exporter", os.path.join(sys.argv[1], "bin/gpumem"), "metrics", "--clients", "-o",
                              os.path.join(work, "gpumem.prom"))
        with subprocess.Popen(["prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                               "--collector.textfile.directory=" + work, "--web.listen-address=127.0.0.1:9100"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8") as server:
            for _ in range(100):
                try:
                    with urllib.request.urlopen(where, timeout=10) as page:
                        served = page.read().decode()
                    break
                except OSError:
                    time.sleep(0.3)
            server.terminate()
            text += server.stderr.read()
    sizes = [float(n) for n in re.findall(r'^gpumem_device_memory_bytes\{device="\d+"\} (\S+)$', served, re.M)]
    told("exporter", {
        "ends": status == 0,
        "reads": re.search(r"^node_textfile_scrape_error 0$", served, re.M) is not None,
        "memory": sizes == [float(n) for n in devices()]}, text + served)


def starpu():
    """StarPU finds both devices, and measures each copy between them and the host."""
    status, text = output("starpu", "starpu_machine_display")
    table = re.search(r"^from/to\s.*\n((?:\w.*\n){3})", text, re.M)
    rows = [line.split("\t")[1:] for line in table.group(1).splitlines()] if table else []
    rows = [[v for v in row if v.strip()] for row in rows]
    told("starpu", {
        "ends": status == 0,
        "devices": len(re.findall(r"^\tCUDA \d\.0 \(%s " % re.escape(NAME), text, re.M)) == 2,
        "bandwidth": len(rows) == 3 and all(
            (int(v) > 0) == (x != y) for x, r in enumerate(rows) for y, v in enumerate(r))}, text)


def pycuda():
    status, text = output("pycuda", "/usr/bin/python3", os.path.join(HERE, "pycuda_cases.py"))
    print(re.sub(r"^((not )?ok - )", r"\1pycuda ", text, flags=re.M), end="")
    client.report(status == 0 and "# end" in text.splitlines(), "pycuda", "ends")


def numba():
    status, text = output("numba", "/usr/bin/python3", "-m", "numba.runtests", "-v",
                          *("numba.cuda.tests.cudadrv.test_" + n for n in NUMBA))
    cases = {}
    # A docstring may stand between a case's name and its result.
    for case, suite, verdict in re.findall(
            r"^(test_\w+) \(numba\.cuda\.tests\.cudadrv\.(test_\w+\.\w+)\.\w+\)(?:\n.*?)?? \.\.\. "
            r"(?:.*?\n)??.*?(ok|FAIL|ERROR|skipped)", text, re.M):
        name = suite[len("test_"):] + "." + case
        if verdict != "skipped":
            cases[name] = cases.get(name, True) and verdict == "ok"
    told("numba", cases, text)
    client.report(status in (0, 1) and "\nRan " in text, "numba", "ends")


PROGRAMS = {"lstopo": lstopo, "gpustat nvtop btop": watchers, "exporter": exporter, "starpu": starpu,
            "pycuda": pycuda, "numba": numba}


def main():
    wanted, before = sys.argv[2:], client.in_use()
    for names, program in PROGRAMS.items():
        if not wanted or any(w in name for w in wanted for name in names.split()):
            program()
            sys.stdout.flush()
    client.given_back("programs", before)
    print("all of them ran")


main()
