# SPDX-License-Identifier: GPL-2.0
"""The directive "lock-order": a picture of the list of locks in the same document.

The list is the first literal block below the line that begins with "Outer to inner".  The picture has one
column for each kind of context that the order goes through, so it has no text of its own that could
differ from the list.
"""
import re

from docutils.statemachine import StringList
from sphinx.errors import ExtensionError
from sphinx.ext.graphviz import Graphviz

LINE = re.compile(r"^    (\[[a-z_ ]+\]|[a-z_]+(?:->[a-z_]+)?)(?: +(.*))?$")
# A column begins at the first line that its function accepts.
COLUMNS = (
    ("mutexes", lambda name, text: True),
    ("around DMA-bufs", lambda name, text: name == "[dma_resv]"),
    ("no allocation here", lambda name, text: name == "[fs_reclaim]"),
    ("spinlocks", lambda name, text: text.startswith("spinlock:")),
    ("spinlocks, irqs off", lambda name, text: text.startswith("spinlock, irqsafe:")),
)
COLOURS = (("[", "#e4e4e4"), ("mutex", "#dbe9f6"), ("rwsem", "#d5ecd4"), ("spinlock", "#fbe3cf"))


def locks(text):
    """[(name, description)] of the list, outer to inner."""
    part = re.search(r"^Outer to inner\..*?::\n\n(.*?)\n(?=\S)", text, re.M | re.S)
    found = [m.groups("") for m in map(LINE.match, part.group(1).split("\n")) if m] if part else []
    if not found or len({name for name, _ in found}) < len(found):
        raise ExtensionError("lock-order: no list of locks, or one that names a lock twice")
    return found


def dot(text):
    """The picture as Graphviz's source."""
    columns = []
    for name, what in locks(text):
        if len(columns) < len(COLUMNS) and COLUMNS[len(columns)][1](name, what):
            columns.append([])
        columns[-1].append((name, what))
    if len(columns) != len(COLUMNS):
        raise ExtensionError("lock-order: the list has no lock for the column \"%s\""
                             % COLUMNS[len(columns)][0])
    lines = ["digraph locks {", "rankdir=LR; ranksep=0.35; node [shape=plain, fontname=sans, fontsize=11];"]
    for number, column in enumerate(columns):
        rows = []
        for name, what in column:
            start = "[" if name.startswith("[") else what
            colour = next(c for prefix, c in COLOURS if start.startswith(prefix))
            name = name.replace(">", "&gt;")
            rows.append('<tr><td align="left" bgcolor="%s">%s</td></tr>' % (colour, name))
        lines.append('c%d [label=<<table border="0" cellborder="1" cellspacing="0" cellpadding="4">'
                     '<tr><td border="0"><b>%s</b></td></tr>%s</table>>];'
                     % (number, COLUMNS[number][0], "".join(rows)))
    lines.append(" -> ".join("c%d" % n for n in range(len(columns))) + ";")
    return "\n".join(lines + ["}"])


class LockOrder(Graphviz):
    """.. lock-order::"""

    def run(self):
        with open(self.env.doc2path(self.env.docname), encoding="utf-8") as f:
            self.content = StringList(dot(f.read()).split("\n"))
        return super().run()


def setup(app):
    """For Sphinx."""
    app.add_directive("lock-order", LockOrder)
    return {"parallel_read_safe": True}
