"""``kspec upgrade``: files that an older kspec has written, in the words of this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.spec.document import versions
from kspec.spec.document.versions import Renamed, upgraded
from kspec.spec.schema import SCHEMA_FILE, render_schema
from tests.projects import SQUARES, write_specs

OLD = SQUARES.replace("operation =", "body =")
LINE = "line 7: 'body' is called 'operation' since schema 2"


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    # A version that kspec does not have yet.
    monkeypatch.setattr(versions, "CHANGES", (Renamed(2, "elementwise", "body", "operation"),))


def test_specs_and_their_schema_are_rewritten(tmp_path: Path, run) -> None:
    project = write_specs(tmp_path / "toy", squares=OLD)
    squares, others = project / "specs/squares.toml", project / "specs/others.toml"
    others.write_bytes(OLD.replace("\n", "\r\n").encode())
    (project / SCHEMA_FILE).write_text("{}\n")
    said = (
        f"specs/others.toml: {LINE}\n"
        f"specs/squares.toml: {LINE}\n"
        "kspec.schema.json: the schema by which editors check spec files\n"
    )
    assert run("upgrade", "--check", "--project", project) == (1, said, "")
    assert squares.read_text() == OLD
    assert run("upgrade", "--project", project) == (0, f"{said}next: kspec build\n", "")
    text, _ = upgraded(OLD)
    assert squares.read_text() == text != OLD
    assert others.read_bytes() == text.replace("\n", "\r\n").encode()
    assert (project / SCHEMA_FILE).read_text() == render_schema()
    done = (0, "nothing to upgrade\n", "")
    assert run("upgrade", "--check", "--project", project) == done
    assert run("upgrade", "--project", project) == done


def test_a_build_of_an_old_spec_names_the_command(tmp_path: Path, run) -> None:
    project = write_specs(tmp_path / "toy", squares=OLD)
    status, _, errors = run("build", "--project", project)
    assert status == 2
    assert errors.splitlines()[0] == (
        "specs/squares.toml:7:1: error: 'body' is called 'operation' since schema 2; "
        "run `kspec upgrade`"
    )
    run("upgrade", "--project", project)
    assert run("build", "--no-compile", "--project", project)[0] == 0


def test_text_that_is_not_toml_is_named_and_nothing_is_written(tmp_path: Path, run) -> None:
    project = write_specs(tmp_path / "toy", broken="doc = \n", squares=OLD)
    status, printed, errors = run("upgrade", "--project", project)
    assert (status, printed) == (2, "")
    assert errors.startswith("kspec: specs/broken.toml: not TOML: Invalid value")
    assert (project / "specs/squares.toml").read_text() == OLD
