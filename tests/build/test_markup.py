"""Docstrings as HTML: each construct that specs use, and text of any sort escaped."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.build.package.markup import render_doc, summary_of

CASES = {
    "paragraphs": ("One\nline.\n\nTwo.", "<p>One line.</p>\n<p>Two.</p>"),
    "code": ("Is ``a * b * c``.", "<p>Is <code>a * b * c</code>.</p>"),
    "name": ("As `sum` and :func:`mean`.", "<p>As <code>sum</code> and <code>mean</code>.</p>"),
    "emphasis": ("*One* and **two**.", "<p><em>One</em> and <strong>two</strong>.</p>"),
    "products": ("2 * x * y, x*y*z, a ** b ** c", "<p>2 * x * y, x*y*z, a ** b ** c</p>"),
    "lone marks": ("a `` b ` c * d", "<p>a `` b ` c * d</p>"),
    "escaped": ("<b> & ``<i>``", "<p>&lt;b&gt; &amp; <code>&lt;i&gt;</code></p>"),
    "heading": ("Notes\n-----\nText.", "<h4>Notes</h4>\n<p>Text.</p>"),
    "short line": ("Notes of it\n---", "<p>Notes of it ---</p>"),
    "bullets": ("* one\n  more\n* two", "<ul><li>one more</li><li>two</li></ul>"),
    "dashes": ("- one\n\n- two", "<ul><li>one</li></ul>\n<ul><li>two</li></ul>"),
    "numbers": ("1. one\n10. two", "<ol><li>one</li><li>two</li></ol>"),
    "nested": (
        "* one\n\n  - in\n* two",
        "<ul><li><p>one</p><ul><li>in</li></ul></li><li>two</li></ul>",
    ),
    "a product on a line": ("Sum of a\n* b.", "<p>Sum of a * b.</p>"),
    "literal": (
        "As in::\n\n    a < b\n\n      c\n\nEnd.",
        "<p>As in:</p><pre>a &lt; b\n\n  c</pre>\n<p>End.</p>",
    ),
    "literal alone": ("::\n\n  a", "<pre>a</pre>"),
    "literal behind a blank": ("As ::\n\n  a", "<p>As</p><pre>a</pre>"),
    "literal in an item": (
        "* as::\n\n      a\n        b",
        "<ul><li><p>as:</p><pre>a\n  b</pre></li></ul>",
    ),
    "nothing literal": ("As::", "<p>As:</p>"),
    "session": (
        "Try:\n\n>>> f(<1)\n2\n\nEnd.",
        '<p>Try:</p>\n<pre><b class="com">&gt;&gt;&gt; </b>f(&lt;<b class="num">1</b>)\n'
        '<b class="com">2</b></pre>\n<p>End.</p>',
    ),
    "terms": (
        "x : array\n    Input, ``x``.\ny : array\n    Output.\n\n    More.",
        "<dl><dt>x : array</dt><dd>Input, <code>x</code>.</dd>"
        "<dt>y : array</dt><dd><p>Output.</p><p>More.</p></dd></dl>",
    ),
    "quotation": ("Said:\n\n  So.", "<p>Said:</p>\n<blockquote>So.</blockquote>"),
    "common indent": ("\n    One.\n\n    Two.\n", "<p>One.</p>\n<p>Two.</p>"),
    "nothing": ("  \n\n", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_constructs(name: str) -> None:
    doc, expected = CASES[name]
    assert render_doc(doc).text == expected


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("Square of\n``x``.\n\nMore.", "Square of <code>x</code>."),
        ("As <in>::\n\n    x", "As &lt;in&gt;:"),
        ("", ""),
    ],
)
def test_summaries(doc: str, expected: str) -> None:
    assert summary_of(doc).text == expected


class _Tags(HTMLParser):
    """Checks that what is opened is closed, and collects tags and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs or attrs[0][0] == "class"
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


_PIECES = [
    *("* ", "- ", "1. ", "::", "\n", "\n\n", "  ", "    ", "\t", "``", "`", "**", "*", ">>> "),
    *("---", "=====", "<script>", "</p>", "&amp;", "x : int", "text", "é", '"', "'"),
]


@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join))
def test_any_text_is_whole_and_has_no_markup_of_its_own(doc: str) -> None:
    page = _Tags(render_doc(doc).text)
    assert not page.open and "script" not in page.tags
    assert page.words.count("<script>") == doc.count("<script>")
    assert page.words.count("text") == doc.count("text")
