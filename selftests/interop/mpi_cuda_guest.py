#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The part of "mpi --cuda" that runs in the two virtual machines: UCX and OpenMPI that know of CUDA.

  mpi_cuda_guest.py BUILD OPENMPI UCX [WORD...]

OPENMPI and UCX are directories that mpi_build.py made: plugins for Debian's OpenMPI, and the whole of UCX.  Without
UCX ("none") only the runs over OpenMPI's own transports take place.  mpi_guest.py has the rest, and how the machines
share the work.

In strict mode the CPU cannot touch device memory, so what passes there has found the memory
by the driver's functions and has moved it by the device, or by the RDMA card: strict-dmabuf registers the memory
by DMA-bufs (mpi_dmabuf.c counts them), strict-verbs copies it to host memory first.  strict-ipc opens IPC handles
(mpi_ipc.c counts them).

UCX's own programs come first: ucx_info lists what UCX found, ucx_perftest sends device memory from one machine
to the other.
"""
import itertools
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import client  # noqa: E402
from mpi_guest import (ALL, FOUR, MESSAGES, ON_UCX, ONE, SHELL, TWO, VERBS, guests, openmpi, output,  # noqa: E402
                       serve, served)

# Each test has a port of its own: its client cannot meet the server of an earlier test.
PORTS = itertools.count(13337)
# UCX stages large messages in device memory.  By default each rank takes more of it than these devices have.
FEW = {"UCX_RNDV_FRAG_ALLOC_COUNT": "host:128,cuda:4"}
TCP = dict(FEW, UCX_NET_DEVICES="eth0", UCX_TLS="tcp,sm,self,cuda")
CUDA_VERBS = dict(VERBS, **FEW, UCX_TLS=VERBS["UCX_TLS"] + ",cuda")
# Name, the test, its options.
PERF = (("tag-latency", "tag_lat", ["-s", "8", "-n", "300"]),
        ("tag-bandwidth", "tag_bw", ["-s", "1048576", "-n", "40"]),
        ("get", "ucp_get", ["-s", "65536", "-n", "100"]),
        ("put-bandwidth", "ucp_put_bw", ["-s", "1048576", "-n", "40"]))


def preloaded(build, library, name=""):
    """Variables of the run @name with mpi_dmabuf.c or mpi_ipc.c, which report a case of it."""
    return {"LD_PRELOAD": os.path.join(build, "interop/mpi", library), "GPUMEM_MPI_NAME": name}


def cuda_runs(build, plugins, libraries):
    """Like RUNS of mpi_guest.py.  What OpenMPI cannot do with device memory has a job of its own: it ends the job."""
    def mpi(ranks, hosts, pml, variables=None, **mca):
        # A library that was built without CUDA leaves the support off: the preloaded variable says otherwise.
        preload = [os.path.join(build, "interop/mpi/built_with.so"), (variables or {}).get("LD_PRELOAD", "")]
        return openmpi(ranks, hosts, pml, dict(variables or {}, LD_PRELOAD=":".join(p for p in preload if p)),
                       mca_base_component_path=plugins, accelerator="cuda", **mca)

    ucx = mpi(2, TWO, "ucx", TCP, **ON_UCX)
    rdma = mpi(2, TWO, "ob1", btl="tcp,self", osc="rdma")
    dmabuf = mpi(2, TWO, "ucx", dict(CUDA_VERBS, **preloaded(build, "dmabuf.so", "strict-dmabuf")), **ON_UCX)
    ipc = mpi(2, ONE, "ob1", preloaded(build, "ipc.so", "strict-ipc"), btl="smcuda,self")
    device, messages = ["device", "--"], ["--"] + MESSAGES
    table = (
        ("strict-ring", "openmpi-ring", 2, None, ucx),
        ("strict-tcp", "openmpi", 2, ALL + messages, mpi(2, TWO, "ob1", btl="tcp,self")),
        ("strict-ipc", "openmpi", 2, ALL + messages, ipc),
        ("strict-ucx", "openmpi", 4, ALL + messages, mpi(4, FOUR, "ucx", TCP, **ON_UCX)),
        ("strict-verbs", "openmpi", 2, device + MESSAGES, mpi(2, TWO, "ucx", CUDA_VERBS, **ON_UCX)),
        ("strict-dmabuf", "openmpi", 2, device + MESSAGES, dmabuf),
        ("strict-ucx-windows", "openmpi", 2, device + ["window-fence", "window-lock"], ucx),
        ("strict-ucx-accumulate", "openmpi", 2, device + ["window-accumulate"], ucx),
        ("strict-rdma-windows", "openmpi", 2, device + ["window-fence", "window-lock"], rdma),
        ("strict-file", "openmpi", 2, device + ["file"], ucx),
        ("plain-ucx", "openmpi", 2, ["device"], ucx),
    )
    return [run + (libraries,) for run in table]


def perftest(env, name, test, options, memory):
    """One test of ucx_perftest; guest 1 serves.  With mpi_dmabuf.c both sides must register a DMA-buf."""
    port, there = next(PORTS), [SHELL, "guest1"]
    log = "/tmp/ucx_perftest.%d" % port
    words = ["timeout", "120", "ucx_perftest", "-t", test, "-m", memory, "-p", str(port), "-w", "10"] + options
    variables = ["%s=%s" % (k, env[k]) for k in env if k.startswith(("UCX_", "LD_", "GPUMEM_STRICT"))
                 or k == "PATH"]
    serve(there, " ".join(variables + words), log)
    for _ in range(20):
        rc, text = output(*words, "guest1", env=env)
        if rc == 0 or "onnect" not in text:
            break
        time.sleep(0.5)
    ended, other = served(there, log)
    final = re.findall(r"^Final: (.*)$", text, re.M)
    print("# %s: %s" % (name, " ".join(final[-1].split()) if final else "no result"))
    good = rc == 0 and bool(final) and ended
    if "dmabuf.so" in env.get("LD_PRELOAD", ""):
        regions = [re.findall(r"^registered (\d+) regions by DMA-buf$", t, re.M) for t in (text, other)]
        print("# %s: regions by DMA-buf of the client and of the server: %s" % (name, regions))
        good = good and all(regions)
    if not good:
        client.show(text, 20)
        client.show(other, 20)
    return good


def ompi_info(plugins):
    """Does OpenMPI find @plugins?"""
    _, text = output("ompi_info", env=dict(os.environ, OMPI_MCA_mca_base_component_path=plugins))
    for component in ("accelerator: cuda", "btl: smcuda", "coll: cuda"):
        client.report("MCA %s " % component in text, "ompi_info", component.replace(": ", "-"))


def ucx_tools(build, ucx, libraries):
    """UCX's own programs."""
    env = dict(os.environ, LD_LIBRARY_PATH=libraries + os.environ["LD_LIBRARY_PATH"],
               PATH="%s/bin:%s" % (ucx, os.environ["PATH"]), UCX_WARN_UNUSED_ENV_VARS="n")
    rc, text = output("ucx_info", "-d", env=env)
    for transport in ("cuda_copy", "cuda_ipc"):
        good = rc == 0 and re.search(r"Transport: %s$" % transport, text, re.M)
        client.report(bool(good), "ucx_info", transport)
    env["GPUMEM_STRICT"] = "1"
    dmabuf = dict(CUDA_VERBS, **preloaded(build, "dmabuf.so"))
    for transport, variables, memories in (("tcp", TCP, ("host", "cuda")), ("verbs", CUDA_VERBS, ("host", "cuda")),
                                           ("dmabuf", dmabuf, ("cuda",))):
        # In a row of puts over verbs UCX ends itself by a fatal error, also with host memory: "out" in the table.
        for name, test, options in PERF if transport == "tcp" else PERF[:-1]:
            for memory in memories:
                case = "%s-%s-%s" % (transport, name, memory)
                client.report(perftest(dict(env, **variables), case, test, options, memory), "ucx_perftest",
                              case)


def main():
    build, plugins, ucx, *wanted = sys.argv[1:]
    libraries = "" if ucx == "none" else ucx + "/lib:"
    runs = [r for r in cuda_runs(build, plugins, libraries) if libraries or r[4][1]["OMPI_MCA_pml"] != "ucx"]

    def first():
        if not wanted or "tools" in wanted:
            ompi_info(plugins)
            if libraries:
                ucx_tools(build, ucx, libraries)

    guests(build, wanted, runs, first)


if __name__ == "__main__":
    main()
