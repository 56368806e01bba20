"""`kspec warm`: what is there, what is compiled, and what cannot be."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kspec.build.cli import output, running
from kspec.build.project import build_project
from kspec.build.tools import warm
from kspec.compiler.cuda import nvrtc
from kspec.errors import LoadError, ManifestError, SpecError, ToolNotFoundError
from kspec.model import manifest
from kspec.model.manifest import ImageEntry
from kspec.runtime import driver
from kspec.runtime.driver.device import HOST, Device
from tests.projects import ROOT, SQUARES, run_python, write_project

GPU = Device("cuda", 0)
LAZY = """
[elementwise.lazy]
inputs = "T x"
outputs = "T y"
operation = "y = x"
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def built(toy: Path) -> Path:
    build_project(toy, compiling=False)
    return toy


def toy_package(project: Path) -> Path:
    return project / "generated/toy_kernels"


def pretend_images(folder: Path) -> None:
    """Let the manifest list an image for each module, of which only the symbols are right."""
    path = folder / manifest.FILE_NAME
    index = manifest.load(path.read_text())
    (folder / "pretended.fatbin").write_bytes(b"code")
    digest = hashlib.sha256(b"code").hexdigest()
    modules = []
    for entry in index.modules:
        symbols = dict.fromkeys(entry.precompiled, "_Z")
        image = ImageEntry("pretended.fatbin", digest, ("sm_90",), "", symbols)
        modules.append(replace(entry, images=(image,)))
    path.write_text(manifest.dump(replace(index, modules=tuple(modules))))


def images_of(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(cache.glob("*.image"))}


class TestOnTheHostDevice:
    @pytest.mark.slow
    def test_a_second_run_compiles_nothing(self, run, built: Path, cache: Path) -> None:
        status, out, err = run("warm", "--project", built, "--device", "host")
        assert status == 0, err
        assert out.startswith("toy_kernels on host: 6 of 6 ready, ")
        assert out.endswith(" s (0 precompiled, 0 cached, 6 compiled)\n")
        lines = err.splitlines()
        assert len(lines) == 6 and lines[-1].startswith("warming 6/6: ")
        assert any("squares.square<float, Flat>: compiled" in line for line in lines)
        before = images_of(cache)
        status, out, err = run("warm", "--project", built, "--device", "host")
        assert status == 0 and "(0 precompiled, 6 cached, 0 compiled)" in out
        assert images_of(cache) == before

    @pytest.mark.slow
    def test_calls_find_what_was_warmed(self, built: Path, cache: Path) -> None:
        # In a process of its own, which makes the host device's runtime too.
        warming = f"import sys; sys.argv = ['', 'warm', '--project', {str(built)!r}]"
        warming += " + ['--device', 'host']\nfrom kspec.build.__main__ import main; main()"
        assert "6 of 6 ready" in run_python(warming, ROOT)
        before = images_of(cache)
        code = """
import numpy as np
from toy_kernels import shifts, squares
x = np.arange(6, dtype=np.float32)
print(squares.square(x).sum(), squares.square(x[::2]).sum(), squares.total(np.ones(3)))
shifts.shift((1,), (128,), x, 6)
print(x[0])
"""
        assert run_python(code, ROOT, built / "generated").split() == ["55.0", "20.0", "3.0", "3.0"]
        assert images_of(cache) == before

    def test_by_the_name_of_the_package(
        self, run, built: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.syspath_prepend(str(built / "generated"))
        monkeypatch.delitem(sys.modules, "toy_kernels", raising=False)  # another test's
        monkeypatch.chdir("/")
        status, out, err = run("warm", "toy_kernels", "--device", "host", "--device", "host")
        assert status == 0, err
        assert out.count("toy_kernels on host: 6 of 6 ready") == 1
        assert "toy_kernels" not in sys.modules, "nothing of it is imported"

    def test_one_kernel_that_does_not_compile(self, run, tmp_path: Path) -> None:
        broken = SQUARES.replace('"y = x * x"', '"y = x * nothing"')
        toy = write_project(tmp_path / "toy", squares=broken)
        build_project(toy, compiling=False)
        status, out, err = run("warm", "--project", toy, "--device", "host")
        assert status == 2
        assert "toy_kernels on host: 1 of 6 ready" in out, "those of the other file"
        assert "squares.square<float, Flat>: failed" in err
        assert "kspec: squares.square<int, Flat> on host:\n" in err
        assert "nothing" in err and "Traceback" not in err

    def test_kernels_without_types_are_named(self, run, tmp_path: Path) -> None:
        toy = write_project(tmp_path / "toy", more=LAZY)
        build_project(toy, compiling=False)
        _, out, _ = run("warm", "--project", toy, "--device", "host")
        assert "6 of 6 ready" in out
        assert out.endswith("without types, so compiled when called: more.lazy\n")

    def test_where_compiling_is_forbidden(
        self, run, built: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KSPEC_JIT", "never")
        status, out, err = run("warm", "--project", built, "--device", "host")
        assert status == 1 and "0 of 6 ready" in out
        assert "KSPEC_JIT=never" in err and not cache.exists()

    def test_lines_fit_80_columns(self, run, tmp_path: Path) -> None:
        name = "a_kernel_with_a_name_that_is_much_longer_than_anybody_would_like_it_to_be"
        toy = write_project(tmp_path / "toy", squares=SQUARES.replace("square]", f"{name}]"))
        (toy / "pyproject.toml").write_text(f"[tool.kspec]\npackage = 'generated/{name}'\n")
        build_project(toy, compiling=False)
        _, out, err = run("warm", "--project", toy, "--device", "host")
        assert max(map(len, [*out.splitlines(), *err.splitlines()])) <= 80
        assert "warming 6/6: " in err and "..." in err


class TestErrors:
    def test_no_gpu(self, run, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver, "why_unavailable", lambda: "no CUDA driver")
        status, out, err = run("warm", "--project", built)
        assert (status, out) == (3, "")
        assert err == "kspec: no CUDA driver; `kspec warm --device host` needs none\n"
        for command in ("warm", "tune"):
            status, _, err = run(command, "--project", built, "--device", "cuda:1")
            assert (status, err) == (3, "kspec: --device cuda:1: no CUDA driver\n")

    def test_devices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver, "why_unavailable", lambda: "")
        monkeypatch.setattr(driver, "device_count", lambda: 1)
        assert warm.wanted_devices(()) == (GPU,)
        assert warm.wanted_devices(("host", "cuda", "cuda:0")) == (HOST, GPU)
        with pytest.raises(ToolNotFoundError, match="no device cuda:1; present are: host, cuda:0"):
            warm.wanted_devices(("cuda:1",))
        with pytest.raises(SpecError, match="--device: unknown device 'gpu'"):
            warm.wanted_devices(("gpu",))

    def test_never_built(self, run, toy: Path) -> None:
        status, _, err = run("warm", "--project", toy, "--device", "host")
        said = "kspec: there is no package generated/toy_kernels; run `kspec build`\n"
        assert (status, err) == (1, said)

    def test_stale(self, run, built: Path) -> None:
        write_project(built, squares=SQUARES.replace("x * x", "x + x"))
        status, _, err = run("warm", "--project", built, "--device", "host")
        assert status == 1
        assert err.endswith("toy_kernels is not what the specs say; run `kspec build`\n")

    def test_broken_spec(self, run, built: Path) -> None:
        write_project(built, bad="[elementwise.f]\ninputs = 'T i'\n")
        status, _, err = run("warm", "--project", built, "--device", "host")
        assert status == 2 and "specs/bad.toml:2:13: error: 'i' is the index" in err

    def test_packages(self, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("no_such_package", "no.such.package", "json.decoder", "", "."):
            with pytest.raises(LoadError, match="there is no package"):
                warm.installed_package(name)
        with pytest.raises(LoadError, match="'json' is not a package that `kspec build` made"):
            warm.installed_package("json")
        folder = toy / "damaged_kernels"
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / manifest.FILE_NAME).write_text("{")
        monkeypatch.syspath_prepend(str(toy))
        with pytest.raises(ManifestError, match="is damaged"):
            warm.installed_package("damaged_kernels")

    def test_a_package_and_a_project(self, run, built: Path) -> None:
        status, _, err = run("warm", "toy_kernels", "--project", built)
        assert (status, err) == (2, "kspec: give a package or --project, not both\n")


class TestOnAGpu:
    """Without one: the driver is pretended, the compiler is not."""

    @pytest.fixture(autouse=True)
    def pretended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver, "why_unavailable", lambda: "")
        monkeypatch.setattr(driver, "device_count", lambda: 1)
        monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))
        monkeypatch.setattr(
            "kspec.runtime.modules.loader.load_module", lambda image, device, home=None: Loaded()
        )

    def test_images_of_the_package(self, run, built: Path, cache: Path) -> None:
        pretend_images(toy_package(built))
        status, out, err = run("warm", "--project", built)
        assert status == 0, err
        assert "toy_kernels on cuda:0: 15 of 15 ready" in out
        assert "(15 precompiled, 0 cached, 0 compiled)" in " ".join(out.split())
        assert not cache.exists()

    def test_kernels_that_are_not_in_an_image(self, run, built: Path, cache: Path) -> None:
        status, out, err = run("warm", "--project", built)
        assert status == 0, err
        assert "(0 precompiled, 0 cached, 15 compiled)" in " ".join(out.split())
        _, out, _ = run("warm", "--project", built)
        assert "(0 precompiled, 15 cached, 0 compiled)" in " ".join(out.split())

    def test_without_a_compiler(
        self, run, built: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing() -> None:
            raise ToolNotFoundError("NVRTC is not installed")

        monkeypatch.setattr(nvrtc, "_library", missing)
        nvrtc.nvrtc_build.cache_clear()
        status, _, err = run("warm", "--project", built)
        assert (status, err) == (3, "kspec: NVRTC is not installed\n")

    def test_a_damaged_image(self, run, built: Path) -> None:
        pretend_images(toy_package(built))
        (toy_package(built) / "pretended.fatbin").write_bytes(b"other")
        status, out, err = run("warm", "--project", built)
        assert status == 1 and "0 of 15 ready" in out
        assert "is not the image that manifest.json describes; run `kspec build`" in err


class Loaded:
    """A module with every kernel."""

    def get_kernel(self, symbol: str) -> object:
        return symbol


def test_help_fits_80_columns(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run("warm", "--help")
    assert status == 0 and "--device" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, built: Path, capfd) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    package = warm.project_package(built)
    assert running._warm(package, HOST) == []
    _, err = capfd.readouterr()
    assert "\x1b[" in err and "6/6" in err and "warming 1/6: " not in err
