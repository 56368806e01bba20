from __future__ import annotations

import tomllib
from typing import Any

import pytest

from kspec.spec.document.positions import content_offsets, scan_positions

DOCUMENT = '''\
# a comment = "with = signs"
top = 1 # [not.a.table]
"quoted.key" = 'x'
dotted . key."with\\u0020space" = [1, [2, 3], {a = "]"}, ]

[table.'one']  # comment
multi = """
first "" line\\tand \\"""
more""""
literal = \'\'\'it's # not a comment\'\'\'\'
date = 1979-05-27 07:32:00
nested = { a.b = 1, "c" = { d = [ "x", # hm
  \'y\' ] } }

[[array]]
x = 1
[[array]]
x = -inf
[array.sub]
y = true
'''


def walk(node: Any, path: tuple[str | int, ...] = ()) -> Any:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield (*path, key), value
        if isinstance(value, dict | list):
            yield from walk(value, (*path, key))


def test_every_key_and_value_is_found() -> None:
    spans = scan_positions(DOCUMENT)
    parsed = dict(walk(tomllib.loads(DOCUMENT)))
    assert set(spans) == set(parsed)
    for path, value in parsed.items():
        span = spans[path]
        if span.value_start >= 0:
            text = DOCUMENT[span.value_start : span.value_end]
            assert tomllib.loads(f"v = {text}")["v"] == value
        if isinstance(path[-1], str):
            key = DOCUMENT[span.key_start : span.key_end]
            assert tomllib.loads(f"{key} = 1") == {path[-1]: 1}


@pytest.mark.parametrize(
    "literal",
    [
        '"plain"',
        r'"tab\t uni\u0041 \U0001F600 quote\" end"',
        "'''\nliteral \\n\n'''",
        '"""\ntwo\nlines"""',
        '"""no newline \\\n     continued \\"""""',
        '""',
        "''''quoted''''",
    ],
)
def test_offsets_of_content(literal: str) -> None:
    text = f"v = {literal}\n"
    value = tomllib.loads(text)["v"]
    offsets = content_offsets(text, scan_positions(text)["v",])
    assert len(offsets) == len(value) + 1
    for character, offset in zip(value, offsets, strict=False):
        assert text[offset] in (character, "\\")


def test_other_values_have_no_content() -> None:
    assert content_offsets("v = 3", scan_positions("v = 3")["v",]) == []
    assert content_offsets("[v]", scan_positions("[v]")["v",]) == []
