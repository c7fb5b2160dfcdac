# SPDX-License-Identifier: GPL-2.0
"""What apt knows and fetches: packages are looked up, downloaded and unpacked, never installed.

Apt is the machine's own apt.  View is the same program with lists of its own, for a release of
the distribution that this machine does not name: the mirror and the keys are those of the
machine's sources, only the suites differ.  Neither needs root.
"""
import contextlib
import glob
import os
import re
import subprocess
import time

from . import Problem
from .cache import cache_dir, lock


class Apt:
    """The machine's own view."""

    def environment(self):
        return None

    def output(self, *words):
        """Standard output of a query, "" when it fails."""
        try:
            return subprocess.run(words, check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, env=self.environment()
                                  ).stdout.decode()
        except FileNotFoundError:
            return ""

    def field(self, package, field):
        """One field of the newest version of @package that apt knows, or None."""
        out = self.output("apt-cache", "show", "--no-all-versions", package)
        m = re.search(r"^%s: (.*)$" % field, out, re.M)
        return m.group(1) if m else None

    def names(self, prefix):
        """The packages whose names begin with @prefix."""
        return self.output("apt-cache", "pkgnames", prefix).split()

    def download(self, packages, where):
        """Download @packages into the directory @where, without installing them."""
        cmd = ["apt-get", "-qq", "download"]
        if os.geteuid() == 0:
            cmd[1:1] = ["-o", "APT::Sandbox::User=root"]
        r = subprocess.run(cmd + packages, cwd=where, check=False, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, env=self.environment())
        if r.returncode:
            raise Problem("apt-get download failed: %s (is the package list fresh? apt-get update)"
                          % r.stdout.decode(errors="replace").strip().replace("\n", "; "))


HOST = Apt()


def unpack(where, dest):
    """Unpack the packages of the directory @where below @dest."""
    for deb in sorted(glob.glob(os.path.join(where, "*.deb"))):
        subprocess.run(["dpkg-deb", "-x", deb, dest], check=True)


def mirror():
    """(address, keyring or "") of the distribution's mirror in this machine's sources."""
    out = HOST.output("apt-get", "indextargets", "--format",
                      "$(CREATED_BY)|$(ORIGIN)|$(LABEL)|$(SITE)|$(SIGNED_BY)|")
    for line in out.splitlines():
        by, origin, label, site, key = line.split("|")[:5]
        if (by, origin, label) == ("Packages", "Debian", "Debian"):
            if not key.startswith("/"):
                key = "/usr/share/keyrings/debian-archive-keyring.gpg"
            return site, key if os.path.exists(key) else ""
    raise Problem("apt's lists name no mirror of Debian: apt-get update")


class View(Apt):
    """Another release: @suites of it, the last one preferred.

    @parts: the archive's areas.  @pretended: packages that count as installed, so that nothing
    brings them along.
    """

    FRESH = 24 * 3600       # seconds that lists are good for

    def __init__(self, name, *suites, parts="main", pretended=()):
        self.name, self.suites, self.parts, self.pretended = name, suites, parts, pretended

    def sources(self):
        """Lines of sources.list."""
        site, key = mirror()
        option = "[signed-by=%s] " % key if key else ""
        return ["deb %s%s %s %s" % (option, site, s, self.parts) for s in self.suites]

    def closure(self, packages):
        """["NAME=VERSION"] of @packages and all that they depend on."""
        out = self.output("apt-get", "-s", "--no-install-recommends", "install", *packages)
        found = re.findall(r"^Inst (\S+) \((\S+)", out, re.M)
        if not found:
            raise Problem("apt's lists of %s do not install %s" % (self.name, " ".join(packages)))
        return sorted("%s=%s" % pair for pair in found)

    def environment(self):
        base = os.path.join(cache_dir(), "apt", self.name)
        conf, stamp = os.path.join(base, "conf"), os.path.join(base, "updated")
        env = dict(os.environ, APT_CONFIG=conf, LC_ALL="C")
        with contextlib.suppress(OSError):
            if time.time() - os.stat(stamp).st_mtime < self.FRESH:
                return env
        for sub in ("state/lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(base, sub), exist_ok=True)
        with lock(os.path.join(base, ".lock")):
            with contextlib.suppress(OSError):
                if time.time() - os.stat(stamp).st_mtime < self.FRESH:
                    return env
            with open(os.path.join(base, "sources.list"), "w", encoding="ascii") as f:
                f.write("\n".join(self.sources()) + "\n")
            with open(os.path.join(base, "status"), "w", encoding="ascii") as f:
                f.write("".join("Package: %s\nStatus: install ok installed\nVersion: 999\n"
                                "Architecture: amd64\nMaintainer: none\nDescription: none\n\n" % p
                                for p in self.pretended))
            with open(conf, "w", encoding="ascii") as f:
                f.write('Dir::State "{0}/state";\nDir::State::status "{0}/status";\n'
                        'Dir::Cache "{0}/cache";\nDir::Etc::SourceList "{0}/sources.list";\n'
                        'Dir::Etc::SourceParts "-";\nDir::Etc::Preferences "-";\n'
                        'Dir::Etc::PreferencesParts "-";\nAPT::Default-Release "{1}";\n'
                        .format(base, self.suites[-1]))
                if os.geteuid() == 0:
                    f.write('APT::Sandbox::User "root";\n')
            r = subprocess.run(["apt-get", "-qq", "update"], env=env, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if r.returncode:
                raise Problem("apt-get update of %s failed: %s" % (
                    self.name, r.stdout.decode(errors="replace").strip().replace("\n", "; ")))
            with open(stamp, "w", encoding="ascii"):
                pass
        return env


TRIXIE = View("trixie", "trixie", "trixie-backports")


class Sources(View):
    """Source packages of a release: @release, else the machine's own."""

    def __init__(self, release=None):
        if not release:
            with open("/etc/os-release", encoding="utf-8") as f:
                found = re.search(r"^VERSION_CODENAME=(.*)$", f.read(), re.M)
            if not found:
                raise Problem("/etc/os-release has no VERSION_CODENAME")
            release = found.group(1)
        super().__init__("source-" + release, release)

    def sources(self):
        return [line.replace("deb ", "deb-src ", 1) for line in super().sources()]

    def version(self, package):
        """The version of a source package, or None."""
        found = re.findall(r"^Version: (.*)$", self.output("apt-cache", "showsrc", package), re.M)
        return found[-1] if found else None

    def unpack(self, package, where):
        """Download and unpack a source package below the directory @where; the directory of its tree."""
        for command in (["apt-get", "-qq", "source", "--download-only", package],
                        ["sh", "-c", "dpkg-source --no-check -x *.dsc tree"]):
            r = subprocess.run(command, cwd=where, check=False, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=self.environment())
            if r.returncode:
                raise Problem("%s: %s" % (" ".join(command), r.stdout.decode(
                    errors="replace").strip().replace("\n", "; ")))
        return os.path.join(where, "tree")
