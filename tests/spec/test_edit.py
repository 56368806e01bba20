"""Edits change one value and leave the rest of the file as it is."""

from __future__ import annotations

import tomllib

import pytest

from kspec.spec.document.edit import append_values, comments_of, remove_values, set_value

TABLE = ("elementwise", "f")
APPENDED = {
    "in one line": ('t = ["a", "b"]  # why\n', 't = ["a", "b", "n"]  # why\n'),
    "empty": ("t = [  ]\n", 't = ["n"  ]\n'),
    "trailing comma": ('t = ["a", ]\n', 't = ["a", "n", ]\n'),
    "lines": ('t = [\n  "a",\n  "b",\n]\n', 't = [\n  "a",\n  "b",\n  "n",\n]\n'),
    "no last comma": ('t = [\n  "a",\n  "b"\n]\n', 't = [\n  "a",\n  "b",\n  "n"\n]\n'),
    "comments": (
        't = [\n  "a",  # one\n  "b"  # two\n  # end\n]\n',
        't = [\n  "a",  # one\n  "b",  # two\n  "n"\n  # end\n]\n',
    ),
    "several in a line": ('t = [\n  "a", "b",\n]\n', 't = [\n  "a", "b", "n",\n]\n'),
}


@pytest.mark.parametrize("name", APPENDED)
def test_append(name: str) -> None:
    text, want = APPENDED[name]
    result = append_values(text, ("t",), ['"n"'])
    assert result == want
    assert tomllib.loads(result)["t"] == [*tomllib.loads(text)["t"], "n"]


REMOVED = {
    "the first": ('t = ["a", "b", "c"]\n', 0, 't = ["b", "c"]\n'),
    "one between": ('t = ["a", "b", "c"]\n', 1, 't = ["a", "c"]\n'),
    "the last": ('t = ["a", "b", "c"]\n', 2, 't = ["a", "b"]\n'),
    "the only one": ('t = ["a"]\n', 0, "t = []\n"),
    "a line": ('t = [\n  "a",  # one\n  "b",  # two\n]\n', 0, 't = [\n  "b",  # two\n]\n'),
    "the last line": ('t = [\n  "a",\n  "b"\n]\n', 1, 't = [\n  "a",\n]\n'),
}


@pytest.mark.parametrize("name", REMOVED)
def test_remove(name: str) -> None:
    text, index, want = REMOVED[name]
    result = remove_values(text, ("t",), [index])
    assert result == want
    values = tomllib.loads(text)["t"]
    assert tomllib.loads(result)["t"] == values[:index] + values[index + 1 :]


def test_remove_several() -> None:
    text = 't = ["a", "b", "c", "d"]\n'
    assert remove_values(text, ("t",), {0, 2}) == 't = ["b", "d"]\n'


SET = {
    "a new line": (
        '[elementwise.f]\ninputs = "T x"  # in\n\n[elementwise.g]\ninputs = ""\n',
        '[elementwise.f]\ninputs = "T x"  # in\nnew = 1\n\n[elementwise.g]\ninputs = ""\n',
    ),
    "before a table of its own": (
        "[elementwise.f]\na = 1\n\n[elementwise.f.example]\nsize = 3\n",
        "[elementwise.f]\na = 1\nnew = 1\n\n[elementwise.f.example]\nsize = 3\n",
    ),
    "a column of equals signs": (
        "[elementwise.f]\nab   = 1\nabcd = 2\n",
        "[elementwise.f]\nab   = 1\nabcd = 2\nnew  = 1\n",
    ),
    "nothing but a header": ("[elementwise.f]  # f\n", "[elementwise.f]  # f\nnew = 1\n"),
    "no newline at the end": ("[elementwise.f]\na = 1", "[elementwise.f]\na = 1\nnew = 1"),
    "dotted keys": (
        "[elementwise]\nf.a = 1\ng.a = 2\n",
        "[elementwise]\nf.a = 1\nf.new = 1\ng.a = 2\n",
    ),
    "an inline table": ("elementwise.f = { a = 1 }\n", "elementwise.f = { a = 1, new = 1 }\n"),
    "an empty inline table": ("elementwise.f = {}\n", "elementwise.f = { new = 1}\n"),
    "a longer key": ("[elementwise.f]\na=1\n", "[elementwise.f]\na=1\nnew = 1\n"),
    "text of several lines": (
        "[elementwise.f]\na = '''\nx = 1\n'''\n",
        "[elementwise.f]\na = '''\nx = 1\n'''\nnew = 1\n",
    ),
    "a value": ("[elementwise.f]\nnew = [1]  # old\n", "[elementwise.f]\nnew = 1  # old\n"),
}


@pytest.mark.parametrize("name", SET)
def test_set(name: str) -> None:
    text, want = SET[name]
    result = set_value(text, TABLE, "new", "1")
    assert result == want
    assert tomllib.loads(result)["elementwise"]["f"]["new"] == 1


def test_comments_inside_a_value() -> None:
    assert comments_of('t = [ # a\n  "x", # b\n]\n', ("t",)) == ["# a", "# b"]
