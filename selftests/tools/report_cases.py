#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Cases of t_report.sh: the JSON, the metrics, the settings, the screen and the exit statuses of gpumem.

  report_cases.py BUILD
"""
import contextlib
import fcntl
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time

BUILD = sys.argv[1]
TOOL = os.path.join(BUILD, "bin/gpumem")
CLASS = "/sys/class/gpumem"
PARAMETERS = "/sys/module/gpumem/parameters"

# A process with work: it copies when a line arrives, and says when it is done.
WORKER = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
def call(name, *args):
    result = getattr(lib, name)(*args)
    if result:
        sys.exit("%s: %d" % (name, result))
ctx, a, b, stream, flag = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
size = ctypes.c_size_t(32 << 20)
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(ctx), 0)
call("cuCtxSetCurrent", ctx)
call("cuMemAlloc_v2", ctypes.byref(a), size)
call("cuMemAlloc_v2", ctypes.byref(b), size)
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuMemAllocHost_v2", ctypes.byref(flag), ctypes.c_size_t(4096))
print("ready", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "copy":
        for i in range(20):
            call("cuMemcpyDtoDAsync_v2", a, b, size, stream)
        call("cuStreamSynchronize", stream)
    elif word == "wait":
        call("cuStreamWaitValue32_v2", stream, flag, 1, 0)
        call("cuMemsetD8Async", a, ctypes.c_ubyte(1), size, stream)
    elif word == "go":
        ctypes.c_uint.from_address(flag.value).value = 1
        call("cuStreamSynchronize", stream)
    elif word == "export":
        import os
        fd = ctypes.c_int()
        call("cuMemGetHandleForAddressRange", ctypes.byref(fd), a, size, 1, ctypes.c_ulonglong(0))
        os.close(fd.value)
    elif word == "refused":
        c = ctypes.c_uint64()
        with open("/sys/class/gpumem/gpumem0/size") as f:
            result = lib.cuMemAlloc_v2(ctypes.byref(c), ctypes.c_size_t(int(f.read())))
        if result != 2:
            sys.exit("an allocation of the whole device: %d" % result)
    elif word == "pin":
        import mmap
        memory = mmap.mmap(-1, 8 << 20)
        call("cuMemHostRegister_v2", ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory))),
             ctypes.c_size_t(8 << 20), 0)
    elif word == "streams":
        for i in range(4):
            another = ctypes.c_void_p()
            call("cuStreamCreate", ctypes.byref(another), 1)
            call("cuMemsetD8Async", a, ctypes.c_ubyte(1), ctypes.c_size_t(64), another)
            call("cuStreamSynchronize", another)
    elif word == "pool":
        p = ctypes.c_uint64()
        call("cuMemAllocAsync", ctypes.byref(p), ctypes.c_size_t(4 << 20), stream)
        call("cuMemFreeAsync", p, stream)
        call("cuStreamSynchronize", stream)
    print("done", flush=True)
"""


class Wrong(Exception):
    pass


class Skip(Exception):
    pass


def want(condition, what, *details):
    if not condition:
        raise Wrong(what + "".join("\n%s" % (d,) for d in details))


def run(*args, status=0, **more):
    """Run the command; returns its standard output."""
    done = subprocess.run([TOOL] + list(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          errors="replace", timeout=120, **more)
    want(done.returncode == status, "%s: exit status %d, not %d" % (args, done.returncode, status), done.stdout,
         done.stderr)
    run.errors = done.stderr
    return done.stdout


def document(*args, status=0):
    out = run(*args, "--json", status=status)
    doc = json.loads(out)
    want(doc["format"] == 1 and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", doc["time"]),
         "no format, or no time", out)
    return doc


def number(path):
    with open(path, encoding="ascii") as f:
        return int(f.read())


class Worker:
    """A process that uses the library."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", WORKER, BUILD + "/lib/libgpumem.so.1"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        want(self.process.stdout.readline() == "ready\n", "the worker does not start")
        return self

    def __exit__(self, *args):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        for _ in range(100):
            if not number(CLASS + "/gpumem0/clients"):
                return
            time.sleep(0.1)

    def begin(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self):
        want(self.process.stdout.readline() == "done\n", "the worker failed")

    def do(self, word):
        self.begin(word)
        self.end()

    def client(self, clients):
        mine = [c for c in clients if c["pid"] == self.process.pid]
        want(len(mine) >= 1, "the worker is not listed", clients)
        return mine[0]


@contextlib.contextmanager
def kept(path):
    """A file of the kernel gets its former text back."""
    with open(path, encoding="ascii") as f:
        former = f.read()
    try:
        yield
    finally:
        with open(path, "w", encoding="ascii") as f:
            f.write(former)


def case_json_of_devices():
    doc = document("list")
    want(len(doc["devices"]) == len(glob.glob(CLASS + "/gpumem*")), "devices are missing", doc)
    for device in doc["devices"]:
        where = "%s/gpumem%d/" % (CLASS, device["device"])
        for name, value in device.items():
            if name == "engine":
                want(value == "cpu", "engine", device)
            elif name != "device":
                want(value == number(where + name), "%s is not as in sysfs" % name, device)
        want({"size", "used", "node", "clients", "budget", "managed"} <= set(device), "attributes are missing", device)
    for name, value in doc["host"].items():
        want(value == number("%s/%s" % (CLASS, name)), "%s is not as in sysfs" % name, doc)
    want(doc["host"].keys() == {"host_used", "managed_used", "pinned", "rings"}, "sums are missing", doc)


def case_json_of_clients():
    with Worker() as worker:
        clients = document("list", "clients")
        mine = worker.client(clients["clients"])
        want(clients["complete"] and mine["command"].startswith("python3"), "the client", mine)
        want(mine["bo-bytes"] == 64 << 20 and mine["host-bytes"] >= 4096 and mine["bos"] == 2, "counters", mine)
        objects = document("list", "objects", str(mine["client"]))["objects"]
        large = [o for o in objects if o["length"] == 32 << 20]
        want(len(large) == 2 and all(o["type"] == "device memory" and o["device"] == 0 for o in large), "objects",
             objects)
        descriptors = document("stat", str(worker.process.pid))["descriptors"]
        want(any(d["bo-bytes"] == 64 << 20 and d["path"] == "/dev/gpumem0" for d in descriptors), "fdinfo",
             descriptors)
        every = document("stat", "--all")["descriptors"]
        want({d["pid"] for d in every} == {worker.process.pid}, "stat --all", every)
        found = document("leaks", status=1)["found"]
        want(any("pid %d," % worker.process.pid in line for line in found), "leaks", found)
    want(document("leaks")["found"] == [], "leaks without a client")


def case_names():
    """Names of processes that are not UTF-8, or have control characters."""
    with open("/proc/self/comm", "rb") as f:
        former = f.read().strip()
    try:
        with open("/proc/self/comm", "wb", buffering=0) as f:
            f.write(b"a\xc3(1) [: A\"\033")
        with open("/dev/gpumem0", "r+b", buffering=0):
            clients = document("list", "clients")["clients"]
            mine = [c["command"] for c in clients if c["pid"] == os.getpid()]
            want(mine == ['a?(1) [: A"?'], "the name", clients)
            want(any("pid %d," % os.getpid() in line for line in document("leaks", status=1)["found"]), "leaks")
            want("\033" not in run("list", "clients") + run("leaks", status=1) + run("top", "-n", "1"),
                 "escape codes")
            samples_of(run("metrics", "--clients"), False)
        # Control characters of other kinds: of ISO 8859, and in UTF-8.  A letter stays.
        with open("/proc/self/comm", "wb", buffering=0) as f:
            f.write(b"b\x9b31m\xc2\x9b\xc3\xa9")
        with open("/dev/gpumem0", "r+b", buffering=0):
            out = subprocess.run([TOOL, "list", "clients"], stdout=subprocess.PIPE, check=True).stdout
            want(b"b?31m??\xc3\xa9" in out, "the name", out)
    finally:
        with open("/proc/self/comm", "wb", buffering=0) as f:
            f.write(former)


def case_json_of_top():
    with Worker() as worker:
        first = document("top", "-n", "1")["samples"]
        mine = worker.client(first[0]["clients"])
        want(len(first) == 1 and mine["engine-busy"] is None, "one sample has no rates", first)
        top = subprocess.Popen([TOOL, "top", "--json", "-n", "4", "-d", "0.5"], stdout=subprocess.PIPE, text=True)
        while top.poll() is None:
            worker.do("copy")
        samples = json.load(top.stdout)["samples"]
        want(len(samples) == 4, "samples are missing", samples)
        busy = [worker.client(s["clients"]) for s in samples[1:]]
        want(any(c["engine-busy"] > 0.05 and c["copy-bytes-per-second"] > 1 << 20 for c in busy), "no work", busy)
        devices = [s["devices"][0] for s in samples]
        want(devices[0]["engine-busy"] is None, "one sample has rates of devices", devices[0])
        want(any(d["engine-busy"] > 0.05 and d["copy-bytes-per-second"] > 1 << 20 for d in devices[1:]),
             "no work of the device", devices)
        want(all(d["copy-bytes-per-second"] == 0 for s in samples[1:] for d in s["devices"][1:]),
             "work of the other device", samples)
        want(samples[0]["time"] < samples[3]["time"] and samples[3]["devices"], "times and devices", samples)


def case_engine_time():
    with Worker() as worker:
        def engine_time():
            return worker.client(document("list", "clients")["clients"])["engine-ns"]
        worker.do("copy")
        # The worker of the stream may not have left it yet.
        time.sleep(0.5)
        begin = engine_time()
        want(begin > 0, "copies take no time")
        worker.do("wait")
        time.sleep(1)
        waiting = engine_time() - begin
        want(waiting < 200000000, "a second of waiting counts %d ns" % waiting)
        worker.do("go")
        time.sleep(0.5)
        want(engine_time() > begin + waiting, "the fill takes no time")
        text = subprocess.run(["cat"] + glob.glob("/proc/%d/fdinfo/*" % worker.process.pid), stdout=subprocess.PIPE,
                              text=True, check=False).stdout
        want(re.search(r"^drm-engine-cpu:\t\d+ ns$", text, re.M), "no drm-engine-cpu", text)
        want(re.search(r"^drm-engine-capacity-cpu:\t%d$" % min(os.cpu_count(), 16), text, re.M), "no capacity", text)


def case_json_of_refusals():
    watch = subprocess.Popen([TOOL, "watch", "--json", "-n", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
    want("waiting" in watch.stderr.readline(), "watch does not begin")
    with Worker() as worker:
        worker.do("refused")
        refusals = json.loads(watch.communicate(timeout=60)[0])["refusals"]
        want(len(refusals) == 1, "refusals", refusals)
        refusal = refusals[0]
        want(refusal["pid"] == worker.process.pid and refusal["device"] == 0, "who", refusal)
        want(refusal["limit"] == "the device's memory" and refusal["unit"] == "bytes"
             and refusal["asked"] == refusal["bound"] == number(CLASS + "/gpumem0/size")
             and refusal["used"] == 64 << 20, "what", refusal)
    for sig in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen([TOOL, "watch", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as watch:
            watch.stderr.readline()
            want(select.select([watch.stdout], [], [], 60)[0], "nothing is printed")
            watch.send_signal(sig)
            want(json.loads(watch.stdout.read())["refusals"] == [], "a signal ends the document")
            want(watch.wait() == 0, "exit status")


def keys_of(value):
    """The names of the members of a JSON value."""
    if isinstance(value, list):
        return set().union(*(keys_of(v) for v in value))
    if isinstance(value, dict):
        return set(value).union(*(keys_of(v) for v in value.values()))
    return set()


def case_members():
    """The document describes every member."""
    described = set()
    for name in ("watching.rst", "accounting.rst", "netlink/gpumem.yaml"):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../Documentation", name)
        if not os.path.exists(path):
            raise Skip("there is no %s" % name)
        with open(path, encoding="utf-8") as f:
            described |= set(re.findall(r"``(?:gpumem-)?([a-z_-]+)(?:-N|\d)?(?:``|:)|^ +name: ([a-z-]+)$", f.read(), re.M))
    described = {word for pair in described for word in pair}
    watch = subprocess.Popen([TOOL, "watch", "--json", "-n", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
    watch.stderr.readline()
    with Worker() as worker:
        worker.do("refused")
        documents = [json.loads(watch.communicate(timeout=60)[0]), document("leaks", status=1)]
        for words in (("list",), ("list", "clients"), ("list", "objects"), ("stat", "--all"), ("top", "-n", "1"),
                      ("doctor",)):
            documents.append(document(*words))
    keys = set().union(*(keys_of(d) for d in documents))
    keys = {re.sub(r"-\d+$", "", key) for key in keys}
    want(keys <= described, "members that no document describes", sorted(keys - described))


def case_order_of_top():
    with Worker() as one, Worker() as two:
        one.do("pin")
        two.do("streams")
        two.do("copy")
        clients = document("list", "clients")["clients"]
        want(one.client(clients)["pin-bytes"] >= 8 << 20, "pinned memory", clients)

        def order(by):
            out = run("top", "-n", "1", "-s", by)
            pids = [int(p) for p in re.findall(r"^\d+ +python3\S* +(\d+) ", out, re.M)]
            want(sorted(pids) == sorted((one.process.pid, two.process.pid)), "rows by %s" % by, out)
            return pids[0]
        want(order("pinned") == one.process.pid, "the order by pinned memory")
        want(order("streams") == two.process.pid, "the order by streams")


def case_timestamps():
    watch = subprocess.Popen([TOOL, "watch", "-t", "-n", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch.stderr.readline()
    with Worker() as worker:
        worker.do("refused")
        out = watch.communicate(timeout=60)[0]
    want(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", out), "no time", out)
    out = run("top", "-n", "2", "-d", "0.2", "-t")
    want(len(re.findall(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", out, re.M)) == 2, "no times", out)
    want("\033" not in out, "escape codes in a pipe", out)


# The events of the module, and their fields.
EVENTS = {
    "object_new": "client id type kind device pool bytes obj",
    "object_gone": "client id type obj",
    "object_free": "client id type obj",
    "export_new": "client device bytes handle",
    "export_free": "client device bytes handle",
    "entry_begin": "client stream device op entry dst src width height",
    "entry_end": "client stream entry op error",
    "refusal": "client device limit pool asked used bound",
    "managed_fault": "client device bo thrash block bytes",
    "managed_prefetch": "client device bo thrash block bytes",
    "managed_evict": "client device bo reason block bytes",
}
TRACING = "/sys/kernel/tracing"


def case_events():
    here = {os.path.basename(d)[len("gpumem_"):] for d in glob.glob(TRACING + "/events/gpumem/gpumem_*")}
    want(here == set(EVENTS), "other events", here)
    for name, fields in EVENTS.items():
        with open(TRACING + "/events/gpumem/gpumem_%s/format" % name, encoding="ascii") as f:
            found = re.findall(r"^\tfield:.*?(\w+);", f.read(), re.M)
        want([n for n in found if not n.startswith("common_")] == fields.split(), "other fields of %s" % name, found)
    # What an export and a refusal leave in the trace.
    instance = TRACING + "/instances/t_report"
    os.mkdir(instance)
    try:
        with open(instance + "/events/gpumem/enable", "w", encoding="ascii") as f:
            f.write("1")
        with Worker() as worker:
            worker.do("refused")
            worker.do("export")
        with open(instance + "/trace", encoding="utf-8") as f:
            text = f.read()
    finally:
        os.rmdir(instance)
    size = number(CLASS + "/gpumem0/size")
    for line in (r"gpumem_refusal: client=\d+ device=0 limit=device pool=0 asked=%d used=67108864 bound=%d$"
                 % (size, size),
                 r"gpumem_export_new: client=\d+ device=0 kind=dmabuf bytes=33554432$",
                 r"gpumem_export_free: client=\d+ device=0 kind=dmabuf bytes=33554432$",
                 r"gpumem_object_new: client=\d+ id=\d+ obj=\w+ type=bo kind=device device=0 pool=0 bytes=33554432$",
                 r"gpumem_object_gone: client=\d+ id=\d+ obj=\w+ type=bo$",
                 r"gpumem_object_free: client=\d+ id=\d+ obj=\w+ type=bo$"):
        want(re.search(line, text, re.M), "no %s" % line, text[-4000:])


def trace_of(*args, **more):
    """The events of a trace."""
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "trace.json")
        run("trace", "-o", path, *args, **more)
        with open(path, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
    want(not glob.glob(TRACING + "/instances/gpumem-*"), "an instance of tracefs is left")
    return events


def check_trace(events, least):
    copies = [e for e in events if e["ph"] == "X" and e["name"] == "copy 32 MiB"]
    want(least <= len(copies) <= 20
         and all(e["cat"] == "work" and e["dur"] > 0 and e["args"]["error"] == 0 for e in copies), "copies", events)
    ends = [(e["ts"], e["ts"] + e["dur"]) for e in copies]
    want(all(a[1] <= b[0] for a, b in zip(ends, ends[1:])), "a stream's entries overlap", ends)
    want(any(e["ph"] == "M" and e["name"] == "thread_name" and e["tid"] == copies[0]["tid"] for e in events),
         "the stream has no name", events)
    names = [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"]
    want(len(names) == 1 and re.fullmatch(r"process \d+ python3\S*, client \d+", names[0]), "names", names)


def case_trace():
    words = (sys.executable, "-c", WORKER, BUILD + "/lib/libgpumem.so.1")
    with open("/dev/null", encoding="ascii") as null:
        events = trace_of("--", "sh", "-c", "echo copy | \"$@\"; exit 7", "sh", *words, status=7, stdin=null)
    check_trace(events, 20)
    memory = [e["args"]["device"] for e in events if e["ph"] == "C" and e["name"] == "memory"]
    want(max(memory) == 64 << 20 and memory[-1] == 0, "memory", memory)
    events = trace_of("--", *words, input="pool\nexport\nrefused\nwait\ngo\n")
    pool = [e["args"]["bytes"] for e in events if e["ph"] == "C" and re.fullmatch(r"pool \d+", e["name"])]
    want(pool and max(pool) >= 4 << 20 and pool[-1] == 0, "the memory of a pool", pool)
    for name in ("poll", "fill"):
        want(any(e["ph"] == "X" and e["name"].startswith(name) for e in events), "no %s" % name, events)
    for name in ("export", "refusal"):
        want(any(e["ph"] == "i" and name in e["name"] for e in events), "no %s" % name, events)
    with Worker() as other, Worker() as worker, tempfile.NamedTemporaryFile() as out:
        trace = subprocess.Popen([TOOL, "trace", "-o", out.name, "-p", str(worker.process.pid)],
                                 stderr=subprocess.PIPE, text=True)
        enable = TRACING + "/instances/gpumem-%d/events/gpumem/enable" % trace.pid
        while not os.path.exists(enable) or not number(enable):
            want(trace.poll() is None, "trace ended", trace.stderr.read() if trace.poll() is not None else "")
            time.sleep(0.1)
        other.do("copy")
        worker.do("copy")
        time.sleep(1)
        trace.send_signal(signal.SIGINT)
        errors = trace.communicate(timeout=60)[1]
        want(trace.returncode == 0, "exit status %d" % trace.returncode, errors)
        with open(out.name, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
    # The library may have copied while the stream was idle.
    check_trace(events, 15)
    run("trace", "-p", "4194304", status=1)
    run("trace", "--", "/no/such/program", status=127)


def case_trace_numbers():
    """A process that has ended is not traced any more, though another one has its number."""
    last_pid = "/proc/sys/kernel/ns_last_pid"
    if not os.path.exists(last_pid):
        raise Skip("the kernel lets nobody choose the next process's number")
    with tempfile.NamedTemporaryFile() as out:
        # The shell runs a worker of its own at the end, which is traced.
        script = "sleep 0 & echo $!; wait; read line; echo copy | \"$@\""
        trace = subprocess.Popen([TOOL, "trace", "-o", out.name, "--", "sh", "-c", script, "sh", sys.executable, "-c", WORKER,
                                  BUILD + "/lib/libgpumem.so.1"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            ended = int(trace.stdout.readline())
            deadline = time.monotonic() + 30
            while os.path.exists("/proc/%d" % ended):
                want(time.monotonic() < deadline, "process %d does not end" % ended)
                time.sleep(0.1)
            # The tracer needs a moment to notice the end.
            time.sleep(2)
            for _ in range(20):
                with open(last_pid, "w", encoding="ascii") as f:
                    f.write(str(ended - 1))
                with Worker() as worker:
                    again = worker.process.pid == ended
                    if again:
                        worker.do("copy")
                if again:
                    break
            errors = trace.communicate("go\n", timeout=60)[1]
        finally:
            trace.kill()
        want(again, "no process got the number %d" % ended)
        want(trace.returncode == 0, "exit status %d" % trace.returncode, errors)
        with open(out.name, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
    check_trace(events, 15)
    want("process %d " % ended not in json.dumps(events), "another process is in the trace", events)


def case_perf():
    """perf prints the module's events with their fields."""
    if not os.environ.get("GPUMEM_THOROUGH"):
        raise Skip("left out: GPUMEM_THOROUGH is not set")
    if not shutil.which("perf"):
        raise Skip("perf is not installed")
    words = (sys.executable, "-c", WORKER, BUILD + "/lib/libgpumem.so.1")
    done = subprocess.run(("perf", "trace", "-e", "gpumem:*", *words), input="export\n", text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    want(done.returncode == 0, "exit status %d" % done.returncode, done.stderr)
    for line in (r" gpumem:gpumem_object_new\(client: \d+, id: \d+, .*bytes: 33554432\b",
                 r" gpumem:gpumem_export_new\(client: \d+, .*bytes: 33554432\b",
                 r" gpumem:gpumem_export_free\(client: \d+, .*bytes: 33554432\b"):
        want(re.search(line, done.stderr), "no %s" % line, done.stderr[-4000:])


SAMPLE = re.compile(r"^([a-z_]+)(?:\{((?:[a-z]+=\"(?:[^\"\\\n]|\\[\\\"n])*\",?)+)\})? (-?[0-9.]+)$")


def samples_of(text, openmetrics):
    """{name: {labels: value}} of Prometheus text, after checks."""
    kinds, samples = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            want(name not in kinds, "two types of %s" % name)
            kinds[name] = kind
        elif not line.startswith("# HELP ") and line != "# EOF":
            m = SAMPLE.match(line)
            want(m, "not a sample: %r" % line)
            name = m.group(1)
            family = name
            if openmetrics and family not in kinds:
                family = re.sub("_(total|info)$", "", name)
                want((kinds.get(family), name[len(family):]) in (("counter", "_total"), ("info", "_info")),
                     "%s has no type" % name)
            want(family in kinds, "%s has no type" % name)
            want((kinds[family] == "counter") == name.endswith("_total"), "the name of %s" % name)
            samples.setdefault(name, {})[m.group(2)] = float(m.group(3))
    return samples


def case_metrics():
    with Worker() as worker:
        worker.do("copy")
        for more in ((), ("--openmetrics",)):
            text = run("metrics", "--clients", *more)
            want(text.endswith("\n# EOF\n") == bool(more), "the end", text[-100:])
            samples = samples_of(text, bool(more))
            want(samples["gpumem_device_memory_bytes"]['device="0"'] == number(CLASS + "/gpumem0/size"), "size", text)
            want(samples["gpumem_pinned_limit_bytes"][None] == number(PARAMETERS + "/pin_total"), "limit", text)
            mine = [(k, v) for k, v in samples["gpumem_client_copy_bytes_total"].items()
                    if 'pid="%d"' % worker.process.pid in k]
            want(sum(v for _, v in mine) >= 20 * (32 << 20) and 'command="python3' in mine[0][0], "copies", mine)
        want("gpumem_client" not in run("metrics"), "clients without --clients")
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "gpumem.prom")
        with open(path, "w", encoding="ascii") as f:
            f.write("old")
            before = os.fstat(f.fileno()).st_ino
        run("metrics", "-o", path)
        want(os.listdir(work) == ["gpumem.prom"], "other files are left", os.listdir(work))
        want(os.stat(path).st_ino != before and os.stat(path).st_mode & 0o777 == 0o644, "the file is not replaced")
        with open(path, encoding="ascii") as f:
            samples_of(f.read(), False)
        run("metrics", "-o", os.path.join(work, "no", "directory"), status=1)
    run("metrics", "-o", "/dev/null")
    want(stat.S_ISCHR(os.stat("/dev/null").st_mode), "a device is replaced by a file")


def case_set():
    shown = document("set")["settings"]
    want(shown["pin_limit"] == number(PARAMETERS + "/pin_limit"), "pin_limit", shown)
    want(shown["gpumem0.size"] == number(CLASS + "/gpumem0/size"), "size", shown)
    with kept(CLASS + "/gpumem0/budget"):
        run("set", "gpumem0.budget=48M")
        want(number(CLASS + "/gpumem0/budget") == 48 << 20, "the budget is not set")
    limit, size = PARAMETERS + "/pin_limit", CLASS + "/gpumem0/size"
    with kept(limit), kept(size):
        out = run("set", "pin_limit=64M", "gpumem0.size=32M")
        want(number(limit) == 64 << 20 and number(size) == 32 << 20, "not set", out)
        want(out == "pin_limit is %d\ngpumem0.size is %d\n" % (64 << 20, 32 << 20), "what is printed", out)
        for words in (("pin_limit=1M", "pin_limt=2M"), ("pin_limit=1M", "gpumem0.used=1"), ("pin_limit=1M", "x"),
                      ("pin_limit=1M", "gpumem.size=1G"), ("pin_limit=1M", "vram=1G")):
            run("set", *words, status=2)
            want(number(limit) == 64 << 20, "a mistake changed something", words)
        run("set", "gpumem0.size=much", status=1)
        want("the kernel refuses much" in run.errors, "message", run.errors)
        run("set", "gpumem63.size=1G", status=1)
        want("no such device" in run.errors, "message", run.errors)


def case_doctor():
    findings = document("doctor")["findings"]
    topics = {f["topic"] for f in findings}
    want({"kernel", "module", "library", "permissions", "budgets", "nodes", "limits", "huge pages"} <= topics,
         "topics are missing", findings)
    want(all(f["verdict"] in ("ok", "note") and (f["verdict"] == "ok" or f["mend"]) for f in findings), "findings",
         findings)
    out = run("doctor")
    want(len(re.findall("^(ok|note) ", out, re.M)) == len(findings), "as text", out)
    with kept(CLASS + "/gpumem0/size"):
        with Worker():
            run("set", "gpumem0.size=32M")
            out = run("doctor")
            want(re.search("^note +budgets +gpumem0 is full: .*\n +mend: .*gpumem set gpumemN.size=", out, re.M),
                 "a full device", out)
    with kept(PARAMETERS + "/pin_total"):
        with open("/proc/meminfo", encoding="ascii") as f:
            ram = int(f.readline().split()[1]) << 10
        run("set", "pin_total=%d" % ram)
        want(re.search("^note +budgets .*OOM killer\n +mend: ", run("doctor"), re.M), "promised memory")


def case_doctor_of_a_user():
    # Copy the command: another user may have no access to the checkout.
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        for name in ("bin/gpumem", "lib/libgpumem.so.1", "lib/libgpumem-driver.so.1"):
            subprocess.run(["cp", "-L", os.path.join(BUILD, name), work], check=True)
        node = os.stat("/dev/gpumem0").st_mode & 0o777
        os.chmod("/dev/gpumem0", 0o600)
        try:
            done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", work + "/gpumem",
                                   "doctor"], env=dict(os.environ, LD_LIBRARY_PATH=work), stdout=subprocess.PIPE,
                                  text=True, check=False)
        finally:
            os.chmod("/dev/gpumem0", node)
    want(done.returncode == 1 and re.search("^wrong +permissions +/dev/gpumem0 may not be opened .*\n"
                                            " +mend: (udevadm trigger|usermod -aG render) ", done.stdout, re.M),
         "no rights", done.stdout)


def show(output, rows, columns):
    """What a terminal of this size shows; Wrong if a line does not fit or the screen scrolls."""
    lines, row, column, at = [""] * rows, 0, 0, 0
    for m in re.finditer(r"\033\[([?0-9;]*)([A-Za-z])|([^\033])", output):
        want(m.start() == at, "an unknown escape code", output[at:at + 20].encode())
        at = m.end()
        if m.group(3) == "\n":
            row, column = row + 1, 0
            want(row < rows, "the screen scrolls", lines)
        elif m.group(3) == "\r":
            column = 0
        elif m.group(3):
            want(column < columns, "the line is too long: %r" % lines[row])
            lines[row] = lines[row][:column].ljust(column) + m.group(3) + lines[row][column + 1:]
            column += 1
        elif m.group(2) == "H":
            place = [int(n) for n in (m.group(1) or "1;1").split(";")]
            row, column = place[0] - 1, place[1] - 1
            want(row < rows, "row %d" % row)
        elif m.group(2) == "K":
            lines[row] = lines[row][:column]
        elif m.group(2) == "J":
            if m.group(1) == "2":
                lines = [""] * rows
            else:
                lines[row] = lines[row][:column]
                lines[row + 1:] = [""] * (rows - row - 1)
    return lines


class Terminal:
    """gpumem top on a terminal."""

    def __init__(self, rows, columns, *args):
        self.rows, self.columns, self.text = rows, columns, ""
        self.pid, self.fd = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(TOOL, [TOOL, "top", "-d", "0.5"] + list(args))

    def lines_with(self, text, seconds=60):
        """What is on the screen when a line has @text."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
            # The help is the end of a screen.
            if "q quit" not in self.text:
                continue
            whole = self.text[:self.text.rfind("q quit") + 6]
            lines = show(whole.replace("\r\n", "\n"), self.rows, self.columns)
            if any(re.search(text, line) for line in lines) and "q quit" in lines[-1]:
                return lines
        raise Wrong("the terminal never shows %s" % text, self.text[-3000:])

    def press(self, key):
        self.text = ""
        os.write(self.fd, key.encode())

    def end(self):
        """The exit status, and what is printed at the end."""
        text = ""
        with contextlib.suppress(OSError):
            while True:
                data = os.read(self.fd, 65536)
                if not data:
                    break
                text += data.decode(errors="replace")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), text


def case_screen():
    with Worker() as one, Worker() as two:
        top = Terminal(24, 80)
        lines = top.lines_with(r" %d python3 .* 64 MiB" % one.process.pid)
        want(re.match(r"gpumem .* UTC  clients: \d+  sorted by memory$", lines[0]), "the first line", lines)
        for i in range(len(document("list")["devices"])):
            want(re.match(r"gpumem%d  \[\|* *\] .* / .*  busy +(-|\d+%%)  copy .*/s$" % i, lines[1 + i]),
                 "a device's line", lines)
        want("[|" in lines[1], "a device's bar", lines)
        two.do("copy")
        top.press("c")
        lines = top.lines_with("sorted by copy")
        top.press("q")
        status, text = top.end()
        want(status == 0 and "\033[?25h" in text, "the end: %d" % status, text)
        # A small window, on which not all fits, and a wide one.
        opened = [os.open("/dev/gpumem0", os.O_RDWR) for _ in range(30)]
        top = Terminal(24, 80)
        lines = top.lines_with(r"^and \d+ clients more$")
        top.press("q")
        want(top.end()[0] == 0, "exit status")
        for fd in opened:
            os.close(fd)
        top = Terminal(50, 200)
        top.lines_with("RESIDENT")
        os.kill(top.pid, signal.SIGTERM)
        status, text = top.end()
        want(status == -signal.SIGTERM and "\033[?25h" in text, "a signal: %d" % status, text)


def case_statuses():
    for words in ((), ("nothing",), ("list", "all"), ("list", "-n", "1"), ("list", "objects", "x"), ("stat",),
                  ("stat", "x"), ("stat", "--all", "1"), ("top", "1"), ("top", "-n", "0"), ("top", "-d", "0"),
                  ("top", "-s", "name"), ("leaks", "x"), ("doctor", "x"), ("trace",),
                  ("trace", "-p", "1", "--", "true"), ("trace", "-p", "x"), ("metrics", "--json"), ("metrics", "x"),
                  ("watch", "-a"), ("--no-such-option",)):
        run(*words, status=2)
        want(run.errors, "no message", words)
    for words in (("stat", "1"), ("stat", "4194304")):
        run(*words, status=1)
    for words in (("--help",), ("--version",), ("list",), ("list", "--json"), ("list", "clients"), ("metrics",),
                  ("top", "-n", "1"), ("doctor",), ("set",), ("cdi", "generate"), ("cdi", "--help"), ("leaks", "--json"),
                  ("stat", "--all", "--json"), ("top", "-n", "1", "--json"),
                  ("list", "objects", "--json")):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([TOOL] + list(words), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        want(done.returncode == 1 and "No space left" in done.stderr, "a full disk", words, done)
    # A full file system: the file that was there stays.
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", work], check=True)
        try:
            for words in (("metrics",), ("cdi", "generate")):
                path = os.path.join(work, words[0])
                with open(path, "w", encoding="ascii") as f:
                    f.write("former")
                with open(work + "/rest", "wb", buffering=0) as f, contextlib.suppress(OSError):
                    f.write(b"x" * 8192)
                run(*words, "-o", path, status=1)
                with open(path, encoding="ascii") as f:
                    want("No space left" in run.errors and f.read() == "former", "a full file system", words, run.errors)
                os.unlink(path)
                os.unlink(work + "/rest")
            with open(work + "/rest", "wb", buffering=0) as f, contextlib.suppress(OSError):
                f.write(b"x" * 8192)
            done = subprocess.run([TOOL, "trace", "-o", work + "/trace", "--", sys.executable, "-c", WORKER,
                                   BUILD + "/lib/libgpumem.so.1"], input="copy\n", stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=False)
            want(done.returncode == 1 and "No space left" in done.stderr, "a trace on a full file system", done)
        finally:
            subprocess.run(["umount", work], check=True)


def main():
    cases = [(name[5:], case) for name, case in globals().items() if name.startswith("case_")]
    failed = False
    print("1..%d" % len(cases), flush=True)
    for number_of, (name, case) in enumerate(cases, 1):
        try:
            case()
            print("ok %d %s" % (number_of, name), flush=True)
        except Skip as e:
            print("ok %d %s # SKIP %s" % (number_of, name, e), flush=True)
        except (Wrong, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            failed = True
            for line in ("%s: %s" % (type(e).__name__, e)).splitlines()[:60]:
                print("# %s" % line)
            print("not ok %d %s" % (number_of, name), flush=True)
    return 1 if failed else 0


sys.exit(main())
