# SPDX-License-Identifier: GPL-2.0
"""What the comments of GCC's tests ask for: DejaGnu's directives, as far as run tests use them.

A directive is a Tcl list on one line, { dg-NAME WORD... }, in a comment of the test.  Words in
double quotes have Tcl's backslashes, words in braces do not.  A selector, { target EXPRESSION },
says for which targets a directive counts; the names in it are questions to the machine, and FACTS
has our answers.  A name without an answer is an error: it would choose tests by accident.
"""
import fnmatch
import re

from vmlib import Problem

# The machine that the tests see: an Nvidia device with memory of its own, in C, no image for it.
FACTS = {
    "openacc_nvidia_accel_selected": True, "openacc_nvidia_accel_present": True,
    "openacc_cuda": True, "openacc_cudart": True, "openacc_cublas": False,
    "openacc_host_selected": False, "openacc_radeon_accel_selected": False,
    "openacc_radeon_accel_present": False,
    "offload_device": True, "offload_device_nonshared_as": True, "offload_device_nvptx": True,
    "offload_device_shared_as": False, "offload_device_intel_mic": False,
    "offload_target_nvptx": False, "offload_target_amdgcn": False,
    "skip-all-targets": False, "lp64": True, "lto": True, "run_expensive_tests": False,
    "c": True, "c++": False,
}
FLAGS = ["-DACC_DEVICE_TYPE_nvidia=1", "-DACC_MEM_SHARED=0", "-foffload=disable", "-O2"]

BEGIN = re.compile(r"\{\s*dg-(?=[a-z])")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def words(text, at):
    """The Tcl list that begins with the brace at @text[@at], as [word...]."""
    out, at = [], at + 1
    while True:
        while text[at] in " \t":
            at += 1
        if text[at] == "}":
            return out
        word = ""
        if text[at] == '"':
            at += 1
            while text[at] != '"':
                if text[at] == "\\":
                    at += 1
                    word += ESCAPES.get(text[at], text[at])
                else:
                    word += text[at]
                at += 1
            at += 1
        elif text[at] == "{":
            depth, begun = 0, at
            while True:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
                if not depth:
                    break
            word = text[begun + 1:at - 1]
        else:
            while text[at] not in " \t}":
                word += text[at]
                at += 1
        out.append(word)


def directives(text):
    """(name, [word...]) of each directive in @text."""
    for m in BEGIN.finditer(text):
        line = text[m.start():].partition("\n")[0]
        try:
            name, *rest = words(line, 0)
        except IndexError:
            continue        # of several lines: none that matters here
        yield name[len("dg-"):], rest


def holds(expression):
    """Is it for us?  @expression: what follows "target", or the whole selector of dg-skip-if."""
    python = []
    for token in re.findall(r"&&|\|\||[!{}]|[^\s!{}&|]+", expression):
        if token in ("&&", "||", "!", "{", "}"):
            python.append({"&&": "and", "||": "or", "!": "not", "{": "(", "}": ")"}[token])
        elif re.search(r"[*?]|-.*-", token):
            python.append(str(fnmatch.fnmatch("x86_64-pc-linux-gnu", token)))
        elif token in FACTS:
            python.append(str(FACTS[token]))
        else:
            raise Problem("a selector asks for %s: gomp_dg.py has no answer" % token)
    return bool(eval(" ".join(python), {"__builtins__": {}}))


def selected(word):
    """Is a directive with the selector @word for us?  What is known to fail for us is not."""
    target, _, known = word.partition("xfail")
    target = re.sub(r"^\s*target\b", "", target).strip()
    return (not target or holds(target)) and not (known.strip() and holds(known))


class Wishes:
    """What one test wants: @left_out is why it cannot be run here, or None."""

    def __init__(self, text):
        self.left_out, self.fails, self.output = None, False, ""
        self.options, self.sources = [], []
        for name, rest in directives(text):
            handler = getattr(self, "dg_" + name.replace("-", "_"), None)
            if handler:
                handler(*rest)

    def dg_do(self, what, selector=""):
        if what != "run" or (selector and not selected(selector)):
            self.left_out = "not a test that runs here"

    def dg_require_effective_target(self, name, *_):
        if not holds(name):
            self.left_out = "needs " + name

    def dg_skip_if(self, _, selector, include="*", exclude=""):
        def given(flags):
            return any(fnmatch.fnmatch(have, f) for f in flags.split() for have in FLAGS + [""])
        if selected(selector) and given(include.replace('"', "")) and not (
                exclude.strip(' "') and given(exclude.replace('"', ""))):
            self.left_out = "skipped by dg-skip-if"

    def dg_shouldfail(self, _="", selector=""):
        self.fails = not selector or selected(selector)

    def dg_output(self, pattern, selector=""):
        if not selector or selected(selector):
            self.output += pattern

    def dg_additional_options(self, options, selector=""):
        if not selector or selected(selector):
            self.options += options.split()

    dg_options = dg_additional_options

    def dg_additional_sources(self, names, *_):
        self.sources += names.split()

    def dg_set_target_env_var(self, *_):
        self.left_out = "wants an environment of its own"
