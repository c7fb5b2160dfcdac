# SPDX-License-Identifier: GPL-2.0
"""Sphinx: "make htmldocs" makes build/htmldocs of these documents.

Sphinx 5.3 (Debian 12) and newer.  The build needs no network: the theme comes with Sphinx.
"""
import os
import re
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "sphinx"))
with open(os.path.join(here, "../Makefile"), encoding="utf-8") as makefile:
    release = re.search(r"^VERSION := (.*)", makefile.read(), re.M).group(1)

project = "gpumem"
author = "The gpumem authors"
project_copyright = author
version = release
needs_sphinx = "5.3"

extensions = ["sphinx.ext.graphviz", "lock_order"]
source_suffix = {".rst": "restructuredtext"}
exclude_patterns = ["man", "netlink", "images"]
nitpicky = True
highlight_language = "none"
smartquotes = False

graphviz_output_format = "svg"

html_theme = "alabaster"
html_theme_options = {
    "description": "CUDA's memory management without a GPU",
    "fixed_sidebar": True,
    "page_width": "70em",
    "body_max_width": "54em",
    # No button that a server elsewhere would have to draw.
    "github_button": False,
    "show_powered_by": False,
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = False
html_show_copyright = False
html_use_index = False
