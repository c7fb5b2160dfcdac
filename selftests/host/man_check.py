#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The manual pages describe everything that the sources have, and nothing else: ioctls, parameters of the
module, attributes in sysfs, files in debugfs, environment variables, commands and options of "gpumem",
and gpumem_* functions.  The pages have no faults that man and mandoc can see.

usage: man_check.py [DIR]     DIR has Documentation/ and the sources (default: this checkout)
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../..")
SKIP = "skip"


def read(*patterns):
    """The text of all files that match, below TOP."""
    text = []
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(TOP, pattern))):
            with open(path, encoding="utf-8") as f:
                text.append(f.read())
    return "\n".join(text)


def section(page, name):
    """The lines of a section, or of a subsection, of a page."""
    found = re.search(r"^\.S([hs]) %s\n(.*?)(?=^\.Sh |%s|\Z)" % (re.escape(name), r"^\.Ss "), page,
                      re.M | re.S)
    return found.group(2) if found else ""


def terms(text, macro):
    """The terms of lists that begin with a macro: the words behind it."""
    return [t.strip() for t in re.findall(r"^\.It %s (.*)" % macro, text, re.M)]


def differ(what, sources, page):
    """The differences of two lists, as lines."""
    lines = [] if sources else ["no %s was found in the sources" % what]
    lines += ["%s %s is described twice" % (what, n) for n in sorted(set(page)) if page.count(n) > 1]
    lines += ["%s %s is not described" % (what, n) for n in sorted(set(sources) - set(page))]
    return lines + ["%s %s is described and does not exist" % (what, n)
                    for n in sorted(set(page) - set(sources))]


def ioctls():
    """gpumem.4 and the header."""
    return differ("ioctl", re.findall(r"^#define (GPUMEM_\w+)\s+_IO\(", read("uapi/linux/gpumem.h"), re.M),
                  terms(section(read("Documentation/man/gpumem.4"), "IOCTLS"), "Dv"))


def parameters():
    """gpumem.4 and what the module declares."""
    page = read("Documentation/man/gpumem.4")
    declared = re.findall(r"^module_param(?:_array|_cb|_named|_string)?\((\w+)", read("kmod/*.c"), re.M)
    synopsis = re.findall(r"^\.Op Cm (\w+)=", section(page, "SYNOPSIS"), re.M)
    return (differ("parameter", declared, terms(section(page, "Parameters"), "Cm")) +
            differ("parameter of the synopsis", declared, synopsis))


def fixed_parameters():
    """gpumem.4 says which parameters cannot be changed."""
    fixed = [m[0] for m in re.findall(r"^module_param\w*\((\w+),[^;]*?\b(0[0-7]+)\);", read("kmod/*.c"), re.M)
             if m[1] == "0444"]
    text = section(read("Documentation/man/gpumem.4"), "Parameters")
    found = re.search(r"\.El\n\.Pp\n(.*?)\nare fixed when", text, re.S)
    said = [w for w in re.findall(r"\w+", found.group(1)) if w not in ("Cm", "and")] if found else []
    return differ("fixed parameter", fixed, said)


def attributes():
    """gpumem.4 and the attributes in sysfs."""
    page, sources = read("Documentation/man/gpumem.4"), read("kmod/*.c")
    lines = []
    for kind, title in (("DEVICE", "Attributes of a device"), ("CLASS", "Attributes of the class")):
        declared = re.findall(r"\b%s_ATTR_\w+\((\w+)\)" % kind, sources)
        lines += differ("attribute", declared, terms(section(page, title), "Pa"))
        for name, text in re.findall(r"^\.It Pa (\w+)\n(.*?)(?=^\.It |^\.El)", section(page, title), re.M | re.S):
            writable = "%s_ATTR_RW(%s)" % (kind, name) in sources
            if writable != ("can be written" in text):
                lines.append("attribute %s is %swritable" % (name, "" if writable else "not "))
    return lines


def debugfs():
    """gpumem.4 and the files in debugfs."""
    sources = read("kmod/*.c")
    files = re.findall(r'fault_create_debugfs_attr\("(\w+)"', sources)
    folder = re.search(r'debugfs_create_dir\("(\w+)"', sources)
    files += ["%s/%s" % (folder.group(1), n) for n in re.findall(r'debugfs_create_\w+\("(\w+)", 0', sources)]
    return differ("file of debugfs", files, terms(section(read("Documentation/man/gpumem.4"), "Debugging"), "Pa"))


def environment():
    """libgpumem.3 and what the library reads."""
    read_by = re.findall(r'\b(?:\w*getenv|env_\w+)\(\s*"(\w+)"', read("libgpumem/*/*.c", "libgpumem/*/*.h"))
    return differ("variable", sorted(set(read_by)),
                  terms(section(read("Documentation/man/libgpumem.3"), "ENVIRONMENT"), "Ev"))


def names_elsewhere():
    """Names in capitals that the documents mention exist somewhere."""
    known = set()
    for folder, below, files in os.walk(TOP):
        below[:] = [d for d in below if d not in ("build", ".git", "Documentation", "__pycache__")]
        for name in files:
            with open(os.path.join(folder, name), encoding="utf-8", errors="ignore") as f:
                known |= set(re.findall(r"\bGPUMEM_[A-Z_0-9]+", f.read()))
    said = set(re.findall(r"\b(GPUMEM_[A-Z_]+[A-Z])\b", read("Documentation/*.rst", "Documentation/man/*.[1-9]",
                                                         "README.md")))
    return ["%s is mentioned and does not exist" % n for n in sorted(said - known)
            if not any(k.startswith(n) for k in known)]


def commands():
    """gpumem.1, the usage text of the program, and what it accepts."""
    source, page = read("tools/gpumem/gpumem.c"), read("Documentation/man/gpumem.1")
    usage = re.search(r'usage\[\] =\n(.*?)";\n', source, re.S).group(1)
    used = set(re.findall(r'(?:usage:|  ) *gpumem (?:\[\w+\] )?([a-z]+)', usage))
    accepted = set(re.findall(r'strcmp\(argv\[1\], "(\w+)"\)', source))
    accepted |= set(re.findall(r'^\t\{ "(\w+)", "\w*", \w+ \},$', source, re.M))
    described = {t.split()[0] for t in terms(section(page, "DESCRIPTION"), "Cm")}
    shown = set(re.findall(r"^\.Cm (\w+)$", section(page, "SYNOPSIS"), re.M)) - {"generate"}
    lines = differ("command", sorted(accepted), sorted(described))
    lines += differ("command of the usage text", sorted(accepted), sorted(used))
    lines += differ("command of the synopsis", sorted(accepted), sorted(shown))
    options = re.findall(r"\{ \"(\w+)\", \w+, NULL, '\w' \}", source)
    said = [t.split()[-1] if t.startswith("-") else re.search(r"-(\w+)", t).group(1)
            for t in terms(section(page, "DESCRIPTION"), "Fl")]
    return lines + differ("option", options, [s.lstrip("-") for s in said])


def functions():
    """libgpumem.3, the headers, the lists of symbols and the pages that are made."""
    header = "".join(read("libgpumem/include/" + h).split("extern \"C\" {")[1] for h in ("gpumem.h", "cufile_stats.h"))
    declared = re.findall(r"^[a-zA-Z][\w *]*?\b(gpumem_\w+)\([^{]*?\);", header, re.M)
    listed = re.findall(r"^(gpumem_\w+)\t", read("libgpumem/abi/*symbols.txt"), re.M)
    page = re.findall(r"^\.It Xr (gpumem_\w+) 3", read("Documentation/man/libgpumem.3"), re.M)
    lines = differ("function", declared, page) + differ("function of symbols.txt", declared, listed)
    with tempfile.TemporaryDirectory() as made:
        make_pages(made)
        lines += differ("function with a page", declared, [n[:-2] for n in os.listdir(made)])
        for name in sorted(os.listdir(made)):
            with open(os.path.join(made, name), encoding="utf-8") as f:
                text = f.read()
            prototype = re.search(r"\b%s\(([^)]*)\);" % name[:-2], header).group(1)
            args = [re.search(r"(\w+)$", p.strip()).group(1) for p in prototype.split(",")]
            described = terms(section(text, "DESCRIPTION"), "Fa")
            if args != (described or ["void"]):
                lines.append("%s: arguments %s, described %s" % (name, args, described))
            for name_of in ("RETURN VALUES",) + (("ERRORS",) if ".Ft CUresult" in text else ()):
                if not section(text, name_of).strip():
                    lines.append("%s: no %s" % (name, name_of))
    return lines


def names():
    """Constants and functions that the pages mention exist."""
    header = read("libgpumem/include/*.h", "uapi/linux/*.h")
    symbols = set(re.findall(r"^(\w+)\t", read("libgpumem/abi/*symbols.txt"), re.M))
    foreign = {"RLIMIT_MEMLOCK", "SIGSEGV", "POLLIN", "DMA_BUF_IOCTL_SYNC", "GPUMEM_MMAP_OFFSET", "execve",
               "pread", "pwrite"}
    lines = []
    for path, text in pages():
        for constant in set(re.findall(r"^\.(?:Dv|It Dv|It Bq Er) .*?\b([A-Z]+_?[A-Z0-9_]*)", text, re.M)):
            if constant not in foreign and not re.search(r"\b%s\b" % constant, header):
                lines.append("%s: there is no %s" % (path, constant))
        for name in set(re.findall(r"^\.Fn (\w+)", text, re.M)):
            plain = {name, name + "_v2", name + "_ptsz", name + "_v3"}
            if name not in foreign and not plain & symbols:
                lines.append("%s: there is no function %s()" % (path, name))
        for name, number in set(re.findall(r"^\.(?:It )?Xr (\w*gpumem\w*) (\d)", text, re.M)):
            if "%s.%s" % (name, number) not in [p for p, _ in pages()]:
                lines.append("%s: there is no page %s(%s)" % (path, name, number))
    return lines


def make_pages(folder):
    """Pages made of comments."""
    subprocess.run([sys.executable, os.path.join(TOP, "Documentation/man/mkman"), folder], check=True)


def pages():
    """[(name, text)] of all pages."""
    if not pages.all:
        with tempfile.TemporaryDirectory() as made:
            make_pages(made)
            for path in sorted(glob.glob(os.path.join(TOP, "Documentation/man/*.[1-9]")) +
                               glob.glob(made + "/*.[1-9]")):
                with open(path, encoding="utf-8") as f:
                    pages.all.append((os.path.basename(path), f.read()))
    return pages.all


pages.all = []


def lint(command, ignore):
    """What a program says about the pages."""
    if not shutil.which(command[0]):
        return SKIP
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages():
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            # man prints the page on standard output, mandoc its complaints.
            done = subprocess.run(command + [path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=dict(os.environ, LC_ALL="C.UTF-8"), check=False)
            said = done.stderr if command[0] == "man" else done.stdout + done.stderr
            said = said.decode(errors="replace").replace(folder + "/", "")
            lines += [line for line in said.splitlines() if line.strip() and not re.search(ignore, line)]
            lines += ["%s: exit status %d" % (name, done.returncode)] if done.returncode > 1 and not lines else []
    return lines


def with_faults():
    """A copy with one fault of each kind: all are found."""
    if len(sys.argv) > 1:
        return []
    with tempfile.TemporaryDirectory() as copy:
        for part in ("Documentation/man", "kmod", "uapi", "libgpumem", "tools/gpumem"):
            shutil.copytree(os.path.join(TOP, part), os.path.join(copy, part))
        for part in ("README.md", "Makefile"):
            shutil.copy(os.path.join(TOP, part), copy)
        for path, old, new in (
                ("uapi/linux/gpumem.h", "#define GPUMEM_INFO _IO(", "#define GPUMEM_NEW _IO("),
                ("Documentation/man/gpumem.4", ".It Cm memlock\n", ".It Cm memory\n"),
                ("Documentation/man/gpumem.4", ".It Pa used\n", ".It Pa usage\n"),
                ("Documentation/man/libgpumem.3", ".It Ev GPUMEM_CLEAR\n", ".It Ev GPUMEM_CLEAN\n"),
                ("Documentation/man/gpumem.1", ".It Cm leaks\n", ".It Cm lost\n"),
                ("libgpumem/include/gpumem.h", " * @flags: must be 0\n", "")):
            with open(os.path.join(copy, path), encoding="utf-8") as f:
                text = f.read()
            with open(os.path.join(copy, path), "w", encoding="utf-8") as f:
                f.write(text.replace(old, new))
        said = subprocess.run([sys.executable, os.path.abspath(__file__), copy], stdout=subprocess.PIPE,
                              check=False).stdout.decode()
    return ["not found: %s" % want for want in (
        "ioctl GPUMEM_NEW is not described", "ioctl GPUMEM_INFO is described and does not exist",
        "parameter memlock is not described", "attribute usage is described and does not exist",
        "variable GPUMEM_CLEAR is not described", "command lost is described and does not exist",
        "gpumem_import_dmabuf.3: arguments") if want not in said]


CASES = (
    ("gpumem.4 describes the ioctls", ioctls),
    ("gpumem.4 describes the parameters of the module", parameters),
    ("gpumem.4 says which parameters are fixed", fixed_parameters),
    ("gpumem.4 describes the attributes in sysfs", attributes),
    ("gpumem.4 describes the files in debugfs", debugfs),
    ("libgpumem.3 describes the environment", environment),
    ("GPUMEM_* names that the documents mention exist", names_elsewhere),
    ("gpumem.1 describes the commands and options", commands),
    ("each gpumem_* function has a page with its arguments, results and errors", functions),
    ("names that the pages mention exist", names),
    ("man has no warnings", lambda: lint(["man", "--warnings", "-l", "-Tutf8", "-Z"], r"^$")),
    # Which other pages are installed on this machine is not the pages' fault.
    ("mandoc has no complaints", lambda: lint(["mandoc", "-Tlint", "-W", "style"],
                                              r"referenced manual not found|mandoc\.db")),
    ("faults of each kind are found", with_faults),
)


def main():
    """TAP."""
    print("TAP version 13")
    passed = failed = skipped = 0
    for number, (what, case) in enumerate(CASES, 1):
        problems = case()
        if problems == SKIP:
            skipped += 1
            print("ok %d - %s # SKIP it is not installed" % (number, what))
            continue
        passed, failed = passed + (not problems), failed + bool(problems)
        print("%sok %d - %s" % ("not " if problems else "", number, what))
        for problem in problems[:40]:
            print("# " + problem)
    print("1..%d" % len(CASES))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


sys.exit(main())
