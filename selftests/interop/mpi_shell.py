#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A remote shell for two guests that trust each other: starts the other machine's part of an MPI job.

  mpi_shell.py serve              run commands for whoever connects, until "quit" comes
  mpi_shell.py HOST WORD...       run the words there by a shell, as rsh and ssh do

The command has the environment and the directory of "serve".  Its output comes back, and its exit
status becomes this program's; a command that goes on in the background ends the connection.
"""
import os
import socket
import subprocess
import sys
import time

PORT = 7014
END = b"\0status "


def words_of(conn):
    """Everything up to the other end's shutdown."""
    data = b""
    while True:
        more = conn.recv(65536)
        if not more:
            return data.decode()
        data += more


def serve():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", PORT))
        s.listen(8)
        while True:
            conn = s.accept()[0]
            command = words_of(conn)
            if command == "quit":
                return 0
            if os.fork() == 0:
                s.close()
                # Not by pipes: a command in the background would keep them open.
                with open("/tmp/mpi_shell.%d" % os.getpid(), "w+b") as out:
                    rc = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=out,
                                        stderr=out, check=False).returncode
                    out.seek(0)
                    conn.sendall(out.read() + END + b"%d" % rc)
                    conn.close()
                os._exit(0)
            conn.close()


def connect(host):
    """Wait for the other machine to serve."""
    for _ in range(240):
        try:
            return socket.create_connection((host, PORT))
        except OSError:
            time.sleep(0.5)
    sys.exit("no shell on %s" % host)


def ask(host, command):
    with connect(host) as s:
        s.sendall(command.encode())
        s.shutdown(socket.SHUT_WR)
        text = words_of(s)
    out, end, status = text.rpartition(END.decode())
    sys.stdout.write(out if end else text)
    sys.stdout.flush()
    return int(status) & 255 if end else 0


sys.exit(serve() if sys.argv[1:] == ["serve"] else ask(sys.argv[1], " ".join(sys.argv[2:])))
