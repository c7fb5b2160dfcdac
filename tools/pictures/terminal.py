#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A picture of a terminal in which a program runs.

  terminal.py [--size COLUMNSxROWS] [--seconds N] [--title TEXT] FILE.svg COMMAND...

The program gets a pseudo-terminal.  After N seconds it is ended, and what the terminal shows then becomes an SVG.  The
few escape codes that gpumem writes are understood: to go to a place, to erase, and reverse video.
"""
import argparse
import fcntl
import html
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

CODES = re.compile(r"\033\[([?0-9;]*)([A-Za-z])|([^\033])", re.S)


class Screen:
    """What a terminal shows: rows of [character, is it reverse?]."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.row = self.column = 0
        self.reverse = False
        self.cells = [self.blank() for _ in range(rows)]

    def blank(self):
        return [(" ", False)] * self.columns

    def put(self, text):
        for m in CODES.finditer(text):
            if m.group(3):
                self.character(m.group(3))
            else:
                self.code(m.group(1), m.group(2))

    def character(self, c):
        if c == "\n":
            self.row = min(self.row + 1, self.rows - 1)
            self.column = 0
        elif c == "\r":
            self.column = 0
        elif self.column < self.columns:
            self.cells[self.row][self.column] = (c, self.reverse)
            self.column += 1

    def code(self, numbers, letter):
        if letter == "H":
            place = [int(n) for n in (numbers or "1;1").split(";")]
            self.row, self.column = place[0] - 1, place[1] - 1
        elif letter == "K":
            # Erased cells have the colours of now.
            rest = self.columns - self.column
            self.cells[self.row][self.column:] = [(" ", self.reverse)] * rest
        elif letter == "J":
            first = 0 if numbers == "2" else self.row + 1
            for i in range(first, self.rows):
                self.cells[i] = self.blank()
        elif letter == "m":
            self.reverse = numbers == "7"


def run(command, columns, rows, seconds):
    """What the terminal shows after some seconds."""
    pid, fd = pty.fork()
    if not pid:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.environ["TERM"] = "xterm"
        os.execvp(command[0], command)
    screen, end, text = Screen(columns, rows), time.monotonic() + seconds, ""
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                text += os.read(fd, 65536).decode(errors="replace")
            except OSError:
                break
            # A code may be cut: keep its beginning.
            cut = text.rfind("\033") if re.search(r"\033(\[[?0-9;]*)?$", text) else len(text)
            screen.put(text[:cut])
            text = text[cut:]
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    os.close(fd)
    return screen


def svg(screen, title):
    """The picture as text."""
    wide, high, head = 8.4, 18, 30
    width, height = screen.columns * wide + 24, screen.rows * high + head + 20
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">'
           % (width, height, width, height),
           '<rect width="100%" height="100%" rx="8" fill="#1b1f27"/>',
           '<text x="12" y="20" font-family="sans-serif" font-size="13" fill="#9aa4b2">%s</text>'
           % html.escape(title)]
    for i, row in enumerate(screen.cells):
        top = head + 6 + i * high
        at = 0
        while at < len(row):
            end = at
            while end < len(row) and row[end][1] == row[at][1]:
                end += 1
            text, reverse = "".join(c for c, _ in row[at:end]), row[at][1]
            if reverse:
                out.append('<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#d5dae3"/>'
                           % (12 + at * wide, top, (end - at) * wide, high))
            if text.strip():
                out.append('<text x="%.1f" y="%d" xml:space="preserve" textLength="%.1f" font-family="monospace"'
                           ' font-size="14" fill="%s">%s</text>'
                           % (12 + at * wide, top + 14, (end - at) * wide, "#1b1f27" if reverse else "#d5dae3",
                              html.escape(text)))
            at = end
    return "\n".join(out + ["</svg>", ""])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", default="80x24")
    ap.add_argument("--seconds", type=float, default=3)
    ap.add_argument("--title", default="")
    ap.add_argument("file")
    ap.add_argument("command", nargs=argparse.REMAINDER)
    o = ap.parse_args()
    columns, rows = (int(n) for n in o.size.split("x"))
    screen = run(o.command, columns, rows, o.seconds)
    if not any(c.strip() for row in screen.cells for c, _ in row):
        sys.exit("terminal.py: %s shows nothing" % o.command[0])
    with open(o.file, "w", encoding="utf-8") as f:
        f.write(svg(screen, o.title))


main()
