# SPDX-License-Identifier: GPL-2.0
"""The modules besides gpumem.ko that tests load: each has a variable that names its path."""
from . import Problem, nic, rxe
from .cache import note

MODULES = {"GPUMEM_NIC": nic.module, "GPUMEM_RXE": rxe.module}


def variables(kernel):
    """NAME=PATH of each module for @kernel.  A test whose module is missing says so by its skip."""
    found = []
    for name, module in MODULES.items():
        try:
            path = module(kernel)
        except Problem as e:
            note(str(e))
            path = None
        # A kernel may have no such module.
        if path:
            found.append("%s=%s" % (name, path))
    return found
