"""Versions of spec files: older texts are rewritten, newer ones refused, and both say where."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.spec.document import versions
from kspec.spec.document.versions import CHANGES, FIRST, Renamed, current, upgraded
from kspec.spec.loader import SpecFileError, load_spec_file
from kspec.spec.models import MODELS
from tests.projects import SQUARES

# Two versions that kspec does not have: names of the first are none of today's.
LATER = (
    Renamed(2, "elementwise", "body", "code"),
    Renamed(2, "raw", "shared", "shared_mem"),
    Renamed(3, "elementwise", "code", "operation"),
)
OLD = """\
#:schema ../kspec.schema.json
# Squares, and why.

doc = "Squares."

[elementwise.square]
inputs  = "T x"   # any
outputs = "T y"
body    = "y = x * x"  # a body
types   = { T = ["float32"] }
"""


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "CHANGES", LATER)


@pytest.mark.usefixtures("later")
def test_fields_get_the_names_of_all_versions_since() -> None:
    text, said = upgraded(OLD)
    assert text == OLD.replace("body    =", "operation    =").replace(
        'doc = "Sq', 'schema = 3\ndoc = "Sq'
    )
    assert said == [
        "line 9: 'body' is called 'code' since schema 2",
        "line 9: 'code' is called 'operation' since schema 3",
    ]
    assert upgraded(text) == (text, [])


@pytest.mark.usefixtures("later")
def test_only_changes_since_the_version_of_the_file_are_made() -> None:
    # In a file of version 2 `body` is a mistake, not the name of the first version.
    text = f"schema = 2  # once\n{OLD}"
    assert upgraded(text) == (text, [])
    text = text.replace("body", "code")
    assert upgraded(text)[0] == text.replace("code    =", "operation    =").replace(
        "schema = 2", "schema = 3"
    )


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    "place", ["reduction.square", "elementwise.body", "elementwise.square.example"]
)
def test_other_keys_of_that_name_stay(place: str) -> None:
    text = f"[{place}]\n" + ("x = 1\n" if place.endswith("body") else "body = 1\n")
    assert upgraded(text) == (text, [])


@pytest.mark.usefixtures("later")
def test_inline_and_dotted_tables() -> None:
    text = "elementwise.f = { body = 'body' }\nelementwise.g.body = 'body'\n"
    assert upgraded(text)[0] == (
        "schema = 3\nelementwise.f = { operation = 'body' }\nelementwise.g.operation = 'body'\n"
    )


def load(folder: Path, text: str) -> None:
    path = folder / "squares.toml"
    path.write_text(text)
    load_spec_file(path, folder)


def test_a_newer_file_is_refused_where_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SpecFileError) as caught:
        load(tmp_path, f"schema = {current() + 1}\n[tensor.f]\nnew = 1\n")
    assert str(caught.value).splitlines()[0] == (
        f"squares.toml:1:10: error: schema {current() + 1} is of a newer kspec, this one reads "
        f"{current()}; upgrade it"
    )
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("value", ["0", "-1", "true", "1.0", '"1"'])
def test_what_is_no_version_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(SpecFileError) as caught:
        load(tmp_path, f"schema = {value}\n")
    message = str(caught.value).splitlines()[0]
    assert message == f"squares.toml:1:10: error: must be a number from {FIRST} to {current()}"


def test_todays_version_may_be_said(tmp_path: Path) -> None:
    load(tmp_path, f"schema = {current()}\n{SQUARES}")


@pytest.mark.usefixtures("later")
def test_an_old_name_is_pointed_at_the_command(tmp_path: Path) -> None:
    with pytest.raises(SpecFileError) as caught:
        load(tmp_path, OLD)
    assert [problem.message for problem in caught.value.problems] == [
        "'body' is called 'operation' since schema 3; run `kspec upgrade`"
    ]
    assert str(caught.value).startswith("squares.toml:9:1: error: ")


@pytest.mark.usefixtures("later")
def test_a_name_older_than_the_file_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(SpecFileError) as caught:
        load(tmp_path, f"schema = 2\n{OLD}")
    messages = [problem.message for problem in caught.value.problems]
    assert messages[0] == "missing key 'operation'"
    assert messages[1].startswith("unknown key 'body'")


def test_names_of_today_are_no_old_ones() -> None:
    for change in CHANGES:
        assert change.old not in MODELS[change.kind].model_fields
