#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A picture of a file of "gpumem trace".

  timeline.py TRACE.json FILE.svg

Each stream is a row, and each entry that a worker executed a box in it; waits are pale.  Below are the graphs of memory
of the clients, one after the other.
"""
import html
import json
import sys

LEFT, WIDTH, ROW, GRAPH, GAP = 210, 880, 26, 60, 10
COLORS = {"copy": "#3b78c3", "fill": "#c9822b", "prefetch": "#5d9a4b", "signal": "#8a63b8", "add": "#8a63b8",
          "timestamp": "#777777", "nop": "#777777"}


def size(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return "%.4g %s" % (n, unit)
        n /= 1024
    return ""


class Picture:
    def __init__(self, begin, end):
        self.begin, self.end = begin, max(end, begin + 1)
        self.y = 34
        self.out = []

    def x(self, ts):
        return LEFT + (ts - self.begin) / (self.end - self.begin) * WIDTH

    def text(self, x, y, text, more=""):
        self.out.append('<text x="%.1f" y="%.1f" font-family="sans-serif" font-size="12" fill="#333" %s>%s</text>'
                        % (x, y, more, html.escape(text)))

    def box(self, x, y, width, height, color, title=""):
        self.out.append('<rect x="%.2f" y="%.1f" width="%.2f" height="%.1f" fill="%s"><title>%s</title></rect>'
                        % (x, y, max(width, 0.6), height, color, html.escape(title)))

    def axis(self):
        """Lines at round times."""
        whole = (self.end - self.begin) / 1000
        step = 10 ** len("%d" % (whole / 10 or 1)) / 10
        while whole / step > 10:
            step *= 2
        at = 0
        while at <= whole:
            x = self.x(self.begin + at * 1000)
            self.out.append('<line x1="%.1f" y1="26" x2="%.1f" y2="%.1f" stroke="#ddd"/>' % (x, x, self.y))
            self.text(x + 2, 22, "%g ms" % at)
            at += step

    def stream(self, name, entries):
        self.text(8, self.y + 17, name)
        for e in entries:
            op = e["name"].split()[0]
            color = "#d8dce3" if e["cat"] == "wait" else COLORS.get(op, "#777777")
            self.box(self.x(e["ts"]), self.y + 4, self.x(e["ts"] + e["dur"]) - self.x(e["ts"]), ROW - 8, color,
                     "%s, %.0f us" % (e["name"], e["dur"]))
        self.y += ROW

    def graph(self, name, points):
        """@points: (time, value), which holds until the next one."""
        high = max(v for _, v in points)
        if not high:
            return
        base = self.y + GRAPH
        self.text(8, self.y + 20, name)
        self.text(8, self.y + 36, "at most " + size(high))
        path = "M%.1f %.1f" % (LEFT, base)
        value = 0
        for ts, v in points + [(self.end, points[-1][1])]:
            path += " H%.1f" % self.x(ts)
            if v != value or ts == self.end:
                path += " V%.1f" % (base - v / high * (GRAPH - 6))
            value = v
        self.out.append('<path d="%s V%.1f Z" fill="#cfdcee" stroke="#3b78c3"/>' % (path, base))
        self.y = base + GAP

    def svg(self):
        self.axis()
        height = self.y + 26
        x = LEFT
        for name, color in (("copy", "copy"), ("fill", "fill"), ("signal", "signal")):
            self.box(x, self.y + 6, 12, 12, COLORS[color])
            self.text(x + 17, self.y + 16, name)
            x += 90
        self.box(x, self.y + 6, 12, 12, "#d8dce3")
        self.text(x + 17, self.y + 16, "wait")
        return "\n".join(['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">'
                          % (LEFT + WIDTH + 20, height, LEFT + WIDTH + 20, height),
                          '<rect width="100%" height="100%" fill="#ffffff"/>'] + self.out + ["</svg>", ""])


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    entries = [e for e in events if e["ph"] == "X"]
    counters = [e for e in events if e["ph"] == "C"]
    if not entries:
        sys.exit("timeline.py: no stream did anything")
    clients = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    picture = Picture(min(e["ts"] for e in entries + counters), max(e["ts"] + e.get("dur", 0) for e in entries + counters))
    for client in sorted(clients):
        picture.text(8, picture.y + 16, clients[client], 'font-weight="bold"')
        picture.y += 22
        for stream in sorted({e["tid"] for e in entries if e["pid"] == client}):
            picture.stream("stream %d" % stream, [e for e in entries if (e["pid"], e["tid"]) == (client, stream)])
        for key in ("device", "host"):
            points = [(e["ts"], e["args"][key]) for e in counters if e["pid"] == client and e["name"] == "memory"]
            if points:
                picture.graph("%s memory" % key, points)
        for pool in sorted({e["name"] for e in counters if e["pid"] == client and e["name"] != "memory"}):
            picture.graph(pool, [(e["ts"], e["args"]["bytes"]) for e in counters
                                 if e["pid"] == client and e["name"] == pool])
        picture.y += GAP
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(picture.svg())


main()
