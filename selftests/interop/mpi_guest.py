#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The part of mpi that runs in the two virtual machines, in the disk with the MPIs.

  mpi_guest.py BUILD [WORD...]

Guest 1 runs what mpi_shell.py is asked for.  Guest 0 starts libfabric's fi_pingpong on both, with device memory
(mpi_pingpong.c), then the jobs of RUNS, and passes their cases on ("ok - RUN KIND-CASE").  Afterwards the counters of
/sys/class/gpumem are what they were, on both.
WORD...: only runs whose names have one of these in them; "tools" is fi_pingpong.
"""
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)

import client  # noqa: E402

SHELL = os.path.join(HERE, "mpi_shell.py")
SECONDS = 1200
ALL = ["device", "runtime", "pool", "vmm", "managed"]
# OpenMPI has no windows over libfabric's messages.
MESSAGES = ["send-recv", "nonblocking", "ring", "persistent", "partitioned", "derived", "bcast",
            "allreduce", "reduce", "alltoall", "gather"]
OPENMPI = {"PRTE_MCA_plm_ssh_agent": SHELL, "PRTE_MCA_prte_silence_shared_fs": "1",
           "OMPI_MCA_btl_tcp_if_include": "eth0", "PRTE_MCA_oob_tcp_if_include": "eth0",
           "OMPI_MCA_osc_base_verbose": "0", "OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PMIX_MCA_ptl_tcp_if_include": "eth0",
           "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def openmpi(ranks, hosts, pml, variables=None, **mca):
    """The command line and the environment of a job of OpenMPI; @variables: the ranks have them, too."""
    env = dict(OPENMPI, OMPI_MCA_pml=pml, **{"OMPI_MCA_" + k: v for k, v in mca.items()})
    return (["mpirun.openmpi", "-np", str(ranks), "--host", ",".join("%s:%d" % h for h in hosts),
             "--bind-to", "none"]
            + [w for k in env if k.startswith("OMPI_MCA_") for w in ("-x", k)]
            + [w for pair in (variables or {}).items() for w in ("-x", "%s=%s" % pair)], env)


def mpich(ranks, hosts, transports):
    """The same of MPICH, whose transports are UCX's."""
    return (["mpiexec.hydra", "-np", str(ranks), "-hosts", ",".join("%s:%d" % h for h in hosts),
             "-bootstrap", "rsh", "-bootstrap-exec", SHELL, "-iface", "eth0"],
            {"UCX_TLS": transports, "UCX_NET_DEVICES": "eth0", "HYDRA_BINDING": "none"})


ONE = [("guest0", 2)]
TWO = [("guest0", 1), ("guest1", 1)]
FOUR = [("guest0", 2), ("guest1", 2)]
UCX = {"UCX_NET_DEVICES": "eth0", "UCX_TLS": "tcp,sm,self"}
# Emulated machines answer late: UCX's own times would end connections.
VERBS = {"UCX_NET_DEVICES": "roce:1,eth0", "UCX_TLS": "rc_verbs,tcp:aux,self", "UCX_RC_VERBS_TIMEOUT": "4s"}
ON_UCX = {"osc": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}
# Name, the program, ranks, kinds of memory, (command line, environment).  The ring takes no words.
RUNS = (
    ("openmpi-ring", "openmpi-ring", 2, None, openmpi(2, TWO, "ob1", btl="tcp,self")),
    ("mpich-ring", "mpich-ring", 2, None, mpich(2, TWO, "tcp,self")),
    ("openmpi-tcp", "openmpi", 2, ALL, openmpi(2, TWO, "ob1", btl="tcp,self")),
    ("openmpi-shm", "openmpi", 2, ALL, openmpi(2, ONE, "ob1", btl="sm,self")),
    ("openmpi-check", "openmpi", 2, ["device", "runtime", "pool", "managed"], openmpi(2, ONE, "ob1", btl="sm,self")),
    ("openmpi-strict", "openmpi", 2, ["device", "--", "send-recv"],
     openmpi(2, TWO, "ob1", btl="tcp,self")),
    ("openmpi-ofi", "openmpi", 2, ["device", "--"] + MESSAGES,
     openmpi(2, TWO, "cm", mtl="ofi", mtl_ofi_provider_include="tcp")),
    ("openmpi-ucx", "openmpi", 4, ["device"], openmpi(4, FOUR, "ucx", UCX, **ON_UCX)),
    ("openmpi-verbs", "openmpi", 2, ["device"], openmpi(2, TWO, "ucx", VERBS, **ON_UCX)),
    ("mpich-tcp", "mpich", 2, ALL, mpich(2, TWO, "tcp,self")),
    ("mpich-shm", "mpich", 2, ALL, mpich(2, ONE, "sm,self")),
    ("mpich-both", "mpich", 4, ["device"], mpich(4, FOUR, "tcp,sm,self")),
)
# Case of fi_pingpong, its provider, the kind of endpoint, where the server runs.
PINGPONG = (("tcp-msg", "tcp", "msg", "guest1"), ("tcp-rdm", "tcp", "rdm", "guest1"),
            ("udp-dgram", "udp", "dgram", "guest1"), ("udp-rdm", "udp;ofi_rxd", "rdm", "guest1"),
            ("verbs-msg", "verbs", "msg", "guest1"), ("verbs-rdm", "verbs;ofi_rxm", "rdm", "guest1"),
            ("shm-rdm", "shm", "rdm", "guest0"))
# Without FI_UNIVERSE_SIZE ofi_rxm asks for a completion queue that soft-RoCE cannot create.
FABRIC = {"FI_TCP_IFACE": "eth0", "FI_UDP_IFACE": "eth0", "FI_VERBS_IFACE": "eth0", "FI_UNIVERSE_SIZE": "2"}


def output(*words, env=None):
    """(exit status, output) of a command."""
    r = subprocess.run(words, env=env, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    return r.returncode, r.stdout


def serve(there, command, log):
    """Start @command in the background.  Its output and its exit status go to the file @log.

    @there: the words that run a command on that machine.
    """
    output(*there, "rm -f %s; (%s; echo status $?) </dev/null >%s 2>&1 &" % (log, command, log))


def served(there, log):
    """(has the command ended with status 0, its output) of serve(), which has 20 seconds to end."""
    for _ in range(40):
        _, text = output(*there, "cat " + log)
        status = re.search(r"status (\d+)\n\Z", text)
        if status:
            break
        time.sleep(0.5)
    return bool(status) and status.group(1) == "0", text


def fi_pingpong(build):
    """Messages of six sizes, each checked (-c), between device memory of both machines."""
    log = "/tmp/fi_pingpong.served"
    before = client.in_use()
    variables = dict(FABRIC, LD_PRELOAD=os.path.join(build, "interop/mpi/pingpong.so"))
    for case, provider, endpoint, host in PINGPONG:
        there = ["bash", "-c"] if host == "guest0" else [SHELL, host]
        words = ["timeout", "120", "fi_pingpong", "-p", "'%s'" % provider, "-e", endpoint, "-I", "20", "-c"]
        command = " ".join(["%s=%s" % v for v in variables.items()] + words)
        serve(there, command, log)
        for _ in range(40):
            status, text = output("bash", "-c", command + " " + host)
            if status == 0 or "failed to connect" not in text:
                break
            time.sleep(0.5)
        ended, other = served(there, log)
        good = status == 0 and ended and all("PINGPONG device memory" in t for t in (text, other))
        client.report(good, "fi_pingpong", case)
        client.show(text, 25)
        if not good:
            client.show(other, 25)
    client.given_back("fi_pingpong", before)


def job(build, name, program, ranks, kinds, how, libraries=""):
    """One job; reports its cases, whether it ends well, and whether it gave everything back.

    @libraries: directories, each with a colon behind it, that the ranks look into before ours.
    """
    words, variables = how
    env = dict(os.environ, GPUMEM_MPI_FILE=os.path.join(os.environ["GPUMEM_MPI_OUT"], name), **variables)
    words_after = [name, str(ranks)] + kinds if kinds else []
    if "strict" in name:
        # The CPU may not touch device memory.
        env["GPUMEM_STRICT"] = "1"
        words = words + ["-x", "GPUMEM_STRICT"]
    if "check" in name:
        # A rank with a report ends with 66.
        env["GPUMEM_CHECK"] = "1"
        words = words + ["-x", "GPUMEM_CHECK"]
    begin, before = time.monotonic(), client.in_use()
    if words[0] == "mpirun.openmpi":
        words = words + ["-x", "GPUMEM_MPI_FILE",
                         "-x", "LD_LIBRARY_PATH=" + libraries + env["LD_LIBRARY_PATH"]]
    with subprocess.Popen(["timeout", str(SECONDS)] + words
                          + [os.path.join(build, "interop/mpi", program)] + words_after,
                          env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace") as p:
        for line in p.stdout:
            line = line.rstrip()
            print(line if re.match(r"((not )?ok - |# )", line) else "#   " + line[:300], flush=True)
    client.report(p.returncode == 0, name, "ends")
    client.given_back(name, before)
    print("# %s: status %d, %.0f seconds" % (name, p.returncode, time.monotonic() - begin), flush=True)


def sweep(build):
    """Each allocation of one rank fails in turn: the job ends and says so."""
    name = "openmpi-sweep"
    words, env = openmpi(2, ONE, "ob1", btl="sm,self")
    begin, before = time.monotonic(), client.in_use()
    status, text = output(os.path.join(build, "bin/gpumem"), "fault", "sweep", "--env", "OMPI_COMM_WORLD_RANK:1", "--",
                          *words, "-x", "LD_LIBRARY_PATH", os.path.join(build, "interop/mpi/openmpi-ring"),
                          env=dict(os.environ, **env))
    verdicts = re.findall(r"^\d+ \w+: ([a-z ]+) \(", text, re.M)
    client.report(status == 0 and verdicts != [] and set(verdicts) == {"reported"}, name, "each-failure-is-reported")
    client.show(text, 25)
    client.given_back(name, before)
    print("# %s: status %d, %.0f seconds" % (name, status, time.monotonic() - begin), flush=True)


def guests(build, wanted, runs, first=lambda: None):
    """What both guests do: @first and @runs in guest 0, the other machine's part in guest 1."""
    os.environ.update(LD_LIBRARY_PATH=os.path.join(build, "compat"), LC_ALL="C.UTF-8", HOME="/tmp",
                      GPUMEM_MPI_OUT=os.environ.get("GPUMEM_MPI_OUT", "/tmp"))
    os.chdir("/tmp")
    if os.environ["GPUMEM_RANK"] != "0":
        before = client.in_use()
        subprocess.run([SHELL, "serve"], check=True)
        client.given_back("guest1", before)
        return
    first()
    for run in runs:
        if not wanted or any(w in run[0] for w in wanted):
            job(build, *run)
    subprocess.run([SHELL, "guest1", "quit"], check=False)
    print("all of them ran")


def main(build, *wanted):
    def first():
        if not wanted or "tools" in wanted:
            fi_pingpong(build)
        if not wanted or "sweep" in wanted:
            sweep(build)

    guests(build, wanted, RUNS, first)


if __name__ == "__main__":
    main(*sys.argv[1:])
