# SPDX-License-Identifier: GPL-2.0
"""Making the initial root: a cpio archive in the "newc" form, and what goes into it.

The same inputs give the same bytes: no times, no owners, no inode numbers of the host.
"""
import io
import lzma
import os
import re
import subprocess

from . import Problem


class Cpio:
    """A cpio archive under construction; directories appear as they are needed."""

    def __init__(self):
        self.out, self.inode, self.seen = io.BytesIO(), 1, set()

    def _pad(self):
        self.out.write(b"\0" * (-self.out.tell() % 4))

    def _entry(self, name, mode, data=b"", rdev=(0, 0)):
        path = name.encode() + b"\0"
        self.inode += 1
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0) + rdev + (len(path), 0)
        self.out.write(b"070701" + b"".join(b"%08X" % x for x in fields) + path)
        self._pad()
        self.out.write(data)
        self._pad()

    def directory(self, path):
        parts = path.strip("/").split("/")
        for i in range(1, len(parts) + 1):
            name = "/".join(parts[:i])
            if name and name not in self.seen:
                self.seen.add(name)
                self._entry(name, 0o40755)

    def file(self, path, data, mode=0o755):
        path = path.strip("/")
        if path in self.seen:
            return
        self.seen.add(path)
        self.directory(os.path.dirname(path))
        self._entry(path, 0o100000 | mode, data)

    def node(self, path, major, minor):
        self.directory(os.path.dirname(path))
        self._entry(path.strip("/"), 0o20600, b"", (major, minor))

    def host_file(self, path):
        """The host's file @path, at the same place."""
        with open(path, "rb") as f:
            self.file(path, f.read(), os.stat(path).st_mode & 0o777)

    def finish(self):
        self._entry("TRAILER!!!", 0)
        return self.out.getvalue()


def read_module(path):
    """(file name without compression suffix, plain contents) of a kernel module."""
    with open(path, "rb") as f:
        data = f.read()
    name = os.path.basename(path)
    if name.endswith(".xz"):
        return name[:-3], lzma.decompress(data)
    if name.endswith(".zst"):
        return name[:-4], subprocess.run(["zstd", "-dcq"], input=data, check=True,
                                         stdout=subprocess.PIPE).stdout
    return name, data


class Modules:
    """What modules a kernel has: @path is its lib/modules/RELEASE."""

    def __init__(self, path):
        self.path, self.deps, self.files, self.builtin = path, {}, {}, set()
        with open(os.path.join(path, "modules.dep"), encoding="ascii") as f:
            for line in f:
                name, _, rest = line.partition(":")
                self.deps[name] = rest.split()
                self.files[os.path.basename(name).split(".ko")[0].replace("-", "_")] = name
        with open(os.path.join(path, "modules.builtin"), encoding="ascii") as f:
            for line in f:
                self.builtin.add(os.path.basename(line.strip())[:-3].replace("-", "_"))

    def has(self, name):
        return name in self.files or name in self.builtin

    def load_order(self, names, required=()):
        """The files that the modules @names need, in load order.

        One that the kernel lacks is an error when it is in @required and else left out.
        """
        order = []
        for name in names:
            plain = name.replace("-", "_")
            if plain in self.files:
                file = self.files[plain]
                order += [m for m in reversed([file] + self.deps[file]) if m not in order]
            elif name in required and plain not in self.builtin:
                raise Problem("the kernel has no module %s" % name)
        return order


def shared_libraries(path, library_path):
    """The files that the program @path needs to start, its interpreter included."""
    with open(path, "rb") as f:
        head = f.read(256)
    if head[:2] == b"#!":
        return [head[2:].split(b"\n")[0].split()[0].decode()]
    if head[:4] != b"\x7fELF":
        return []
    env = dict(os.environ, LD_LIBRARY_PATH=library_path, LC_ALL="C")
    r = subprocess.run(["ldd", path], env=env, check=False, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
    text = r.stdout.decode(errors="replace")
    if "not found" in text:
        raise Problem("%s: %s" % (path, re.search(r".*not found.*", text).group(0).strip()))
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", text, re.M)


def closure(paths, library_path):
    """@paths and all files that they need, each once."""
    todo, out = list(paths), []
    while todo:
        path = todo.pop(0)
        if path not in out:
            out.append(path)
            todo += shared_libraries(path, library_path)
    return out
