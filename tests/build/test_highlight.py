"""Code as HTML: a class for each sort of token, nothing lost, everything escaped."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.build.package.highlight import CLASSES, Code, Html, highlight

CUDA = """\
#include "kspec/elements.cuh"
template <class T> __global__ void twice(T* x) {  // in place
  x[threadIdx.x] *= T(2);
}
"""


def test_cuda() -> None:
    text = highlight(CUDA, "cuda").text
    assert text.startswith(
        '<b class="pre">#include</b> <b class="str">"kspec/elements.cuh"</b>\n'
        '<b class="key">template</b> &lt;<b class="key">class</b> <b class="name">T</b>&gt; '
        '<b class="key">__global__</b> <b class="type">void</b> '
    )
    assert '<b class="com">// in place\n</b>' in text and '<b class="num">2</b>' in text
    assert '<b class="type">threadIdx</b>' in text


@pytest.mark.parametrize(
    ("language", "code", "expected"),
    [
        ("python", "x: int = None", 'x: <b class="type">int</b> = <b class="key">None</b>'),
        ("toml", "a = 1 # b", 'a = <b class="num">1</b> <b class="com"># b</b>'),
        ("pycon", ">>> x\n3", '<b class="com">&gt;&gt;&gt; </b>x\n<b class="com">3</b>'),
    ],
)
def test_languages(language: str, code: str, expected: str) -> None:
    assert highlight(code, language).text == expected


@given(st.text(max_size=60), st.sampled_from(["cuda", "python", "toml", "pycon"]))
def test_no_character_is_lost_or_left_as_markup(code: str, language: str) -> None:
    # Pygments takes returns for ends of lines, and leaves out the mark of an encoding.
    code = code.replace("\r", "").replace("\ufeff", "")
    made = highlight(code, language).text
    tags = re.compile(rf'<b class="(?:{"|".join(CLASSES)})">|</b>')
    bare = tags.sub("", made)
    assert "<" not in bare and ">" not in bare
    assert html.unescape(bare) == html.unescape(html.escape(code))


def test_templates_print_html_as_it_is() -> None:
    assert Code("a < b", "cuda").__html__() == "a &lt; b"
    assert Html("<i>").__html__() == str(Html("<i>")) == "<i>"
    assert not Code("", "cuda") and not Html("") and Code("x", "cuda") and Html("x")
