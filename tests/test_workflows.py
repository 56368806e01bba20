"""Workflows of GitHub, those of new projects and of the pages: whole, pinned, with commands that exist."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kspec.build import scaffold
from tests.projects import ROOT
from tests.test_documented_commands import commands

WORKFLOWS = ".github/workflows/"
LIBRARIES = ("library", "torch")
PUBLISH = "pypa/gh-action-pypi-publish"


def parsed(text: str) -> dict[str, Any]:
    """Return a workflow; ``on`` is the key that YAML 1.1 reads as true."""
    found = yaml.safe_load(text)
    return {"on" if key is True else key: value for key, value in found.items()}


def blocks(page: Path) -> list[str]:
    """Return the workflows that a page shows, without lone jobs."""
    found = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [text for text in found if re.search(r"^jobs:", text, re.MULTILINE)]


def workflows() -> dict[str, str]:
    found = {
        f"{template}/{path.removeprefix(WORKFLOWS)}": text
        for template in LIBRARIES
        for path, text in scaffold.new_project("demo", template).files.items()
        if path.startswith(WORKFLOWS)
    }
    for page in sorted((ROOT / "docs").glob("*.md")):
        found |= {f"{page.name}:{number}": text for number, text in enumerate(blocks(page))}
    return found


FOUND = workflows()


def jobs(text: str) -> dict[str, dict[str, Any]]:
    return dict(parsed(text)["jobs"])


def steps(text: str) -> Iterator[dict[str, Any]]:
    for job in jobs(text).values():
        yield from job.get("steps", ())


def run_lines(text: str) -> list[str]:
    return [line for step in steps(text) for line in step.get("run", "").splitlines()]


def test_there_are_workflows() -> None:
    for template in LIBRARIES:
        assert {f"{template}/{name}.yml" for name in ("test", "release")} <= set(FOUND)
    assert {"ci.md:0", "ci.md:1", "diagnostics.md:0"} <= set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_workflows_are_whole(name: str) -> None:
    workflow = parsed(FOUND[name])
    assert {"on", "jobs"} <= set(workflow)
    for job in workflow["jobs"].values():
        assert "uses" in job or {"runs-on", "steps"} <= set(job)
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
    assert all(("uses" in step) != ("run" in step) for step in steps(FOUND[name]))


@pytest.mark.parametrize("name", FOUND)
def test_commands_of_kspec_are_there(name: str) -> None:
    known = commands()
    for line in run_lines(FOUND[name]):
        for command in re.findall(r"(?:^|[/ ])kspec ((?!=)[^|&;]+)", line):
            word, *options = shlex.split(command)
            assert word in known, line
            given = {option.partition("=")[0] for option in options if option.startswith("--")}
            assert given <= known[word], line


@pytest.mark.parametrize("name", FOUND)
def test_options_of_pytest_are_those_of_the_plugin(name: str) -> None:
    plugin = (ROOT / "kspec/build/pytest_plugin.py").read_text()
    for line in run_lines(FOUND[name]):
        for option in re.findall(r"--kspec[\w-]*", line):
            assert f'"{option}"' in plugin, line


def test_each_action_has_one_major_version() -> None:
    versions = defaultdict(set)
    for text in FOUND.values():
        for step in steps(text):
            if "uses" in step:
                action, version = step["uses"].split("@")
                versions[action].add(version)
    assert all(len(found) == 1 for found in versions.values()), versions
    pinned = {action: next(iter(found)) for action, found in versions.items()}
    assert pinned.pop(PUBLISH) == "release/v1"  # its own branch of the major version
    assert all(re.fullmatch(r"v\d+", version) for version in pinned.values()), pinned


@pytest.mark.parametrize("template", LIBRARIES)
def test_only_the_job_that_publishes_may_ask_for_an_identity(template: str) -> None:
    release = parsed(FOUND[f"{template}/release.yml"])
    assert release["on"] == {"release": {"types": ["published"]}}
    for name in ("test", "release"):
        assert parsed(FOUND[f"{template}/{name}.yml"])["permissions"] == {"contents": "read"}
    given = {name: job.get("permissions") for name, job in release["jobs"].items()}
    assert given == {"test": None, "build": None, "publish": {"id-token": "write"}}
    publish = release["jobs"]["publish"]
    assert publish["environment"] == "pypi" and publish["needs"] == "build"
    assert [step["uses"].split("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        PUBLISH,
    ]
    assert not any("run" in step or "password" in str(step) for step in publish["steps"])


@pytest.mark.parametrize("template", LIBRARIES)
def test_a_release_is_tested_before_it_is_built(template: str) -> None:
    release = jobs(FOUND[f"{template}/release.yml"])
    assert release["test"]["uses"] == "./.github/workflows/test.yml"
    assert "workflow_call" in parsed(FOUND[f"{template}/test.yml"])["on"]
    assert release["build"]["needs"] == "test"
    assert "python -m build" in run_lines(FOUND[f"{template}/release.yml"])
    tested = run_lines(FOUND[f"{template}/test.yml"])
    assert tested[-2:] == ["kspec check --format github", "pytest --kspec --kspec-device host"]
    assert ("pip install torch" in " ".join(tested)) == (template == "torch")


def test_checkouts_of_new_projects_keep_no_credentials() -> None:
    for template in LIBRARIES:
        for name in ("test", "release"):
            for step in steps(FOUND[f"{template}/{name}.yml"]):
                if "checkout" in step.get("uses", ""):
                    assert step["with"] == {"persist-credentials": False}


def test_the_page_shows_the_workflow_of_new_projects() -> None:
    assert FOUND["library/release.yml"] in FOUND.values()
    assert FOUND["ci.md:1"] == FOUND["library/release.yml"] == FOUND["torch/release.yml"]
