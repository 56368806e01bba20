"""Settings of Sphinx: `make docs` makes a site of the pages beside this file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "generated")]

project = "kspec"
extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "kspec"
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
}
myst_heading_anchors = 4
autodoc_typehints = "none"  # docstrings have them
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

_SESSION = re.compile(r"^```python[^\n]*\n(?=>>> )", re.MULTILINE)
_UPWARDS = re.compile(r"\[([^]]+)\]\(((?:\.\./)+)[^)]*\.md\)")


def _change(app: Any, name: str, source: list[str]) -> None:
    """Change what a page is for readers of the repository, and for tests, to what a site shows.

    Sessions of the interpreter are highlighted as such, and links to pages beside ``docs`` become
    their texts.
    """

    def of_the_site(link: re.Match[str]) -> str:
        return link[0] if link[2].count("/") <= name.count("/") else link[1]

    source[0] = _UPWARDS.sub(of_the_site, _SESSION.sub("```pycon\n", source[0]))


def setup(app: Any) -> None:
    """Register what changes pages."""
    app.connect("source-read", _change)
