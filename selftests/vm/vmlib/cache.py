# SPDX-License-Identifier: GPL-2.0
"""The cache of everything that is fetched or built once: kernels, headers, roots, package lists.

It is $GPUMEM_CACHE, else /var/cache/gpumem for root, else gpumem in $XDG_CACHE_HOME or ~/.cache.
An entry is a directory CACHE/KIND/KEY whose files never change once it has its name (a kernel's may
get an unpacked image beside its packed one); the key tells what it was made from, so a new package
makes a new entry and an old one stays valid for its users.  Entries are made under
another name and renamed, below an exclusive lock: a half-made one is never seen.  Nothing is ever
installed on the host.
"""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile

from . import Problem


def cache_dir():
    """The cache, created when absent."""
    path = os.environ.get("GPUMEM_CACHE")
    if not path:
        path = "/var/cache/gpumem" if os.geteuid() == 0 else os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "gpumem")
    path = os.path.abspath(path)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise Problem("%s cannot be made: %s; GPUMEM_CACHE names another directory"
                      % (path, e.strerror)) from e
    return path


@contextlib.contextmanager
def lock(path):
    """Hold an exclusive lock on the file @path for the block."""
    with open(path, "w", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def note(text):
    sys.stderr.write("vm: %s\n" % text)
    sys.stderr.flush()


def safe(text):
    """@text as a part of a file's name."""
    return re.sub(r"[^\w.+-]", "_", text)


def make_entry(kind, key, build):
    """The directory CACHE/@kind/@key; made by @build(temporary, final) when absent."""
    base = os.path.join(cache_dir(), kind)
    os.makedirs(base, exist_ok=True)
    final = os.path.join(base, key)
    if os.path.isdir(final):
        return final
    with lock(os.path.join(base, "." + key + ".lock")):
        if os.path.isdir(final):
            return final
        tmp = tempfile.mkdtemp(prefix=".new-", dir=base)
        try:
            build(tmp, final)
            os.chmod(tmp, 0o755)
            os.rename(tmp, final)
        except (OSError, subprocess.CalledProcessError) as e:
            raise Problem("making %s failed: %s" % (final, e)) from e
        finally:
            shutil.rmtree(tmp, ignore_errors=True)
    return final
