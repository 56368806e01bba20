"""The forms of issues on GitHub: whole, and with commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.projects import ROOT
from tests.test_documented_commands import commands

FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
# The parts of a form that ask for something.
QUESTIONS = {"textarea", "input", "dropdown", "checkboxes"}


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_of_issues(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert set(form) == {"name", "description", "labels", "body"}
    questions = [part for part in form["body"] if part["type"] != "markdown"]
    assert {part["type"] for part in questions} <= QUESTIONS
    assert all(part["attributes"]["label"] for part in questions)
    identifiers = [part["id"] for part in questions]
    assert len(set(identifiers)) == len(identifiers)
    known = commands()
    for command in re.findall(r"`kspec ([\w-]+)", path.read_text()):
        assert command in known
    for part in questions:
        if part["type"] == "dropdown":
            assert len(set(part["attributes"]["options"])) > 1


def test_bugs_come_with_the_output_of_doctor() -> None:
    assert {path.stem for path in FORMS} == {"bug", "config", "feature", "result"}
    for name in ("bug", "result"):
        form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
        (doctor,) = [part for part in form["body"] if part.get("id") == "doctor"]
        assert doctor["validations"] == {"required": True}
        assert "kspec doctor" in doctor["attributes"]["label"]
