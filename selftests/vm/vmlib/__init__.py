# SPDX-License-Identifier: GPL-2.0
"""Throw-away virtual machines for testing: standard library only, no root needed."""


class Problem(Exception):
    """The runner cannot do its work; the text is one line for the user."""
