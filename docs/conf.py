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
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = "kspec"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "kspec"},
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
# Pages that are a part by themselves have no list of its pages.
html_sidebars = {"index": [], "gallery": []}
myst_heading_anchors = 4
autodoc_typehints = "none"  # docstrings have them
toc_object_entries_show_parents = "hide"
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

_SESSION = re.compile(r"^```python[^\n]*\n(>>> .*?)\n+```$", re.MULTILINE | re.DOTALL)
_MAPPING = re.compile(r"mappingproxy\((.*?)\)")
_UPWARDS = re.compile(r"\[([^]]+)\]\(((?:\.\./)+)[^)]*\.md\)")


def _change(app: Any, name: str, source: list[str]) -> None:
    """Change what a page is for readers of the repository, and for tests, to what a site shows.

    Sessions of the interpreter are highlighted as such, without the empty line that ends them for
    doctest, and links to pages beside ``docs`` become their texts.
    """

    def of_the_site(link: re.Match[str]) -> str:
        return link[0] if link[2].count("/") <= name.count("/") else link[1]

    source[0] = _UPWARDS.sub(of_the_site, _SESSION.sub(r"```pycon\n\1\n```", source[0]))


def _shorten(app: Any, what: str, name: str, one: Any, options: Any, *texts: str) -> Any:
    """Show the default of a parameter that takes a mapping as a caller writes it."""
    signature, returned = texts
    return signature and _MAPPING.sub(r"\1", signature), returned


def setup(app: Any) -> None:
    """Register what changes pages."""
    app.connect("source-read", _change)
    app.connect("autodoc-process-signature", _shorten)
