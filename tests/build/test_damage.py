"""Packages that were damaged: every file that a build left, changed in every way."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kspec.build import atomic_replace
from kspec.build.load import import_package
from kspec.build.project import build_project
from kspec.errors import KspecError, ManifestError
from kspec.model import manifest
from kspec.model.stages import RawSymbol
from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.package import GeneratedModule, open_module
from tests.projects import files_of

PACKAGE = Path("generated/toy_kernels")
SYMBOL = RawSymbol("shift")


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "a flipped bit": flipped,
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\0",
    "foreign": lambda data: b"\x7fELF" + bytes(100),
    "text": lambda data: b"<<<<<<< HEAD\n",
}


@pytest.fixture
def built(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the package of the project."""
    monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))
    return built / PACKAGE


def shipped(folder: Path) -> object:
    index = manifest.load((folder / "manifest.json").read_text())
    return GeneratedModule(folder, index.module("shifts")).shipped(SYMBOL, Device("cuda", 0))


@pytest.mark.parametrize("how", DAMAGE)
def test_an_image_is_refused_and_built_again(built: Path, how: str) -> None:
    path = built / "shifts.shift.fatbin"
    assert shipped(built) is not None
    before = files_of(built)
    path.write_bytes(DAMAGE[how](before["shifts.shift.fatbin"]))
    with pytest.raises(ManifestError, match=r"is not the image that manifest\.json describes"):
        shipped(built)
    assert build_project(built.parents[1]).compiled == ("shifts.shift",)
    assert files_of(built) == before


@pytest.mark.parametrize("how", sorted({*DAMAGE} - {"foreign"}))
@pytest.mark.parametrize("name", ["shifts.cu", "amount.cuh"])
def test_a_text_is_refused_and_built_again(built: Path, name: str, how: str) -> None:
    """What is compiled of another text would run beside the image of this one."""
    index = manifest.load((built / "manifest.json").read_text())
    module = GeneratedModule(built, index.module("shifts"))
    assert [one.name for one in module.source(SYMBOL).headers] == ["amount.cuh"]
    before = files_of(built)
    (built / name).write_bytes(DAMAGE[how](before[name]))
    with pytest.raises(
        ManifestError,
        match=r"shifts\.cu or amount\.cuh is not the text that manifest\.json describes; edit "
        r"specs/shifts\.toml instead, and run `kspec build`",
    ):
        module.source(SYMBOL)
    if before[name] not in (built / name).read_bytes():
        (built / name).unlink()  # nothing says that kspec wrote it
    build_project(built.parents[1])
    assert files_of(built) == before


def test_an_edited_text_does_not_run(
    built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
    shift = open_module(str(built / "shifts.py"), "shifts").raw("shift")
    (built / "amount.cuh").write_text("#define AMOUNT 4\n")
    x = np.zeros(1, np.float32)
    with pytest.raises(ManifestError, match=r"amount\.cuh is not the text"):
        shift((1,), (1,), (x, 1))
    assert x[0] == 0


def test_folders_of_the_project_mean_nothing_where_a_package_is_used(
    toy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (toy / "more").mkdir()
    (toy / "specs/amount.cuh").rename(toy / "more/amount.cuh")
    path = toy / "specs/shifts.toml"
    path.write_text(path.read_text().replace("params", 'options = ["-Imore", "-DA=1"]\nparams', 1))
    build_project(toy, compiling=False)
    index = manifest.load((toy / PACKAGE / "manifest.json").read_text())
    source = GeneratedModule(toy / PACKAGE, index.module("shifts")).source(SYMBOL)
    assert source.options == ("-DA=1",)
    assert [one.name for one in source.headers] == ["amount.cuh"]


def test_another_modules_image_is_refused(built: Path) -> None:
    (built / "shifts.shift.fatbin").write_bytes((built / "squares.square.fatbin").read_bytes())
    with pytest.raises(ManifestError, match="is not the image"):
        shipped(built)


@pytest.mark.parametrize("how", sorted({*DAMAGE} - {"longer", "one byte short"}))
def test_a_manifest_is_refused_and_built_again(built: Path, how: str) -> None:
    path = built / "manifest.json"
    before = files_of(built)
    path.write_bytes(DAMAGE[how](before["manifest.json"]).replace(b"\x7f", b""))
    with pytest.raises(ManifestError, match=r"run `kspec build` again"):
        shipped(built)
    (built / "amount.cuh").unlink()  # which nobody knows to be ours by now
    build_project(built.parents[1])
    assert files_of(built) == before


@pytest.mark.parametrize(("schema", "advice"), [(1, "run `kspec build`"), (99, "upgrade kspec")])
def test_a_manifest_of_another_version(built: Path, schema: int, advice: str) -> None:
    path = built / "manifest.json"
    before = files_of(built)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": schema}))
    with pytest.raises(ManifestError, match=advice):
        shipped(built)
    build_project(built.parents[1])
    assert files_of(built) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_build_that_can_not_write(
    toy: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_project(toy)
    before = files_of(toy / PACKAGE)
    spec = toy / "specs/squares.toml"
    spec.write_text(spec.read_text().replace("y = x * x", "y = x * x * 1"))
    write = Path.write_bytes

    def fail(path: Path, data: bytes) -> int:
        if path.name == "squares.cu":
            raise OSError(number, os.strerror(number), str(path))
        return write(path, data)

    with monkeypatch.context() as patch, pytest.raises(OSError, match=os.strerror(number)):
        patch.setattr(Path, "write_bytes", fail)
        build_project(toy)
    assert files_of(toy / PACKAGE) == before
    assert not (toy / "generated/.toy_kernels.staging").exists()
    assert build_project(toy).changed


def test_the_command_says_which_file(run, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a/b.fatbin")

    monkeypatch.setattr(atomic_replace, "_put_in_place", fail)
    status, _, err = run("build", "--project", toy)
    assert status == 1 and "kspec: a/b.fatbin: No space left on device" in err


def test_a_missing_project(tmp_path: Path) -> None:
    with pytest.raises(KspecError, match="cannot be read"):
        build_project(tmp_path / "none")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\n")
    with pytest.raises(KspecError, match="there is no folder 'specs'"):
        build_project(tmp_path)


@pytest.mark.parametrize("how", ["truncated", "longer", "foreign", "text"])  # others are Python
def test_a_module_that_cannot_be_imported_says_why(built: Path, how: str) -> None:
    path = built / "shifts.py"
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    with pytest.raises(ManifestError) as caught:
        _ = import_package(built).shifts
    assert f"{path} is not as it was written (its sha256 differs): " in str(caught.value)
    assert "run `kspec build` again" in str(caught.value)


@pytest.mark.parametrize("line", ["deff shift(", "shift = undefined", "1 / 0", "import \0"])
def test_edited_modules(built: Path, line: str) -> None:
    path = built / "shifts.py"
    path.write_text(f"{path.read_text()}\n{line}\n")
    with pytest.raises(ManifestError, match=r"shifts\.py is not as it was written"):
        _ = import_package(built).shifts


def test_errors_of_modules_that_are_as_they_were_written(built: Path) -> None:
    (built / "manifest.json").unlink()
    with pytest.raises(ManifestError, match="No such file"):
        _ = import_package(built).shifts
    path = built / "shifts.py"
    body = "raise ZeroDivisionError\n"
    path.write_text(f"#\n# {hashlib.sha256(body.encode()).hexdigest()}\n{body}")
    with pytest.raises(ZeroDivisionError):
        _ = import_package(built).shifts
    path.unlink()
    with pytest.raises(ModuleNotFoundError):
        _ = import_package(built).shifts
