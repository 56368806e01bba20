"""docs/diagnostics.md lists every message and every kind of fault."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest

from tests.projects import ROOT

PAGE = (ROOT / "docs/diagnostics.md").read_text(encoding="utf-8")
# Words with a hyphen in the host device's sources that are not kinds of faults.
OTHERS = {
    "kernel-address",
    "object-size",
    "read-after-write",
    "write-after-read",
    "write-after-write",
}
OTHERS |= {"interrupted", "internal-error"}  # a KeyboardInterrupt; a defect of kspec itself


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/messages.py"))


@pytest.fixture(scope="module")
def messages(script: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = script["messages"]()
    return found


def test_the_list_is_up_to_date(script: dict[str, Any]) -> None:
    """After a message has changed: ``python docs/messages.py``."""
    _, begin, rest = PAGE.partition(script["BEGIN"])
    assert begin
    assert rest.strip() == script["section"]().strip()


@pytest.mark.parametrize(
    ("heading", "message"),
    [
        ("ShapeError", "zero-size array to reduction operation ‹name› which has no identity"),
        ("ArgumentTypeError", "‹where› is a NumPy array next to CUDA arrays; move it to"),
        ("In specs", "an expression sees one element of each input"),  # of a constant
        ("In specs", "must be ‹expected›, not ‹"),  # of a helper that makes the exception
        ("JitError", "else of a for loop"),  # of a class and a text
    ],
)
def test_messages_are_found(messages: dict[str, list[str]], heading: str, message: str) -> None:
    assert [one for one in messages[heading] if message in one]


def test_every_kind_of_fault_is_listed() -> None:
    table = PAGE.partition("## Faults of the host device")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    listed = set(re.findall(r"`([a-z-]+)`", " ".join(rows)))
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("kspec/host/rt", "kspec/host/include", "kspec/include/kspec")
        for path in sorted((ROOT / folder).rglob("*.*"))
    )
    said = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', sources))
    assert listed <= said
    assert {word for word in said if "-" in word} - OTHERS <= listed
