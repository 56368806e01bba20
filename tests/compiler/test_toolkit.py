"""Where the CUDA toolkit is: wheels along the path first, then what cuda.pathfinder knows."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kspec.compiler import cuda as toolkit
from kspec.compiler.cuda import bindings_of, find_headers, find_static_library, find_tool
from kspec.errors import ToolNotFoundError
from tests.projects import ROOT, environment

CUDA_13 = (
    "nvidia/cu13/include/cuda_runtime.h",
    "nvidia/cu13/include/cccl/cuda/std/version",
    "nvidia/cu13/include/curand.h",
    "nvidia/cu13/lib/libcudadevrt.a",
    "nvidia/cu13/lib/libnvrtc.so.13",
    "nvidia/cu13/bin/nvcc",
)
CUDA_12 = (
    "nvidia/cuda_runtime/include/cuda_runtime.h",
    "nvidia/cuda_cccl/include/cuda/std/version",
    "nvidia/curand/include/curand.h",
    "nvidia/cuda_runtime/lib/libcudadevrt.a",
    "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    "nvidia/cuda_nvcc/bin/nvcc",
)
FOUND_13 = {
    "cudart": "nvidia/cu13/include",
    "cccl": "nvidia/cu13/include/cccl",
    "curand": "nvidia/cu13/include",
    "cudadevrt": "nvidia/cu13/lib/libcudadevrt.a",
    "nvcc": "nvidia/cu13/bin/nvcc",
}
FOUND_12 = {
    "cudart": "nvidia/cuda_runtime/include",
    "cccl": "nvidia/cuda_cccl/include",
    "curand": "nvidia/curand/include",
    "cudadevrt": "nvidia/cuda_runtime/lib/libcudadevrt.a",
    "nvcc": "nvidia/cuda_nvcc/bin/nvcc",
}
ONLY_ON_THE_PATH = """\
import site, sys
import numpy as np
from kspec.compiler import compile_source, headers
from kspec.compiler.cuda import fatbin, link, nvrtc
from kspec.model.stages import CudaSource, Target
assert not [one for one in site.getsitepackages() if "nvidia" in one]
text = '#include <cuda_fp16.h>\\n#include <cuda/std/array>\\nextern "C" __global__ void k(__half* x) {}'
source = CudaSource("k.cu", text)
images = [compile_source(source, Target(arch)) for arch in ("sm_90", "compute_90")]
joined = fatbin.make_fatbin(images)
linked = compile_source(CudaSource("k.cu", text, options=("-dc",)), Target("sm_90"))
assert link.assembler_errors(images[1].code, "compute_90", "k") == ""
places = [*headers.toolkit_include_dirs(nvrtc.nvrtc_version()), link.device_runtime()]
print(joined.arch, linked.code[:4], *places, sep="\\n")
"""


def make(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("no library")
        path.chmod(0o755)
    return folder


def found() -> dict[str, Path | None]:
    return {
        **{name: find_headers(name) for name in ("cudart", "cccl", "curand")},
        "cudadevrt": find_static_library("cudadevrt"),
        "nvcc": find_tool("nvcc"),
    }


@pytest.fixture
def no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what cuda.pathfinder finds."""
    from cuda import pathfinder

    for name in ("find_nvidia_header_directory", "find_static_lib", "find_nvidia_binary_utility"):
        monkeypatch.setattr(pathfinder, name, lambda _: None)


@pytest.mark.parametrize(("names", "places"), [(CUDA_13, FOUND_13), (CUDA_12, FOUND_12)])
def test_both_layouts_of_wheels(
    names: tuple[str, ...],
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = make(tmp_path / "site", names)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "none"), str(folder)])
    assert found() == {name: folder / place for name, place in places.items()}


def test_the_first_entry_of_the_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = make(tmp_path / "12", CUDA_12), make(tmp_path / "13", CUDA_13)
    monkeypatch.setattr(sys, "path", [str(older), str(newer)])
    assert find_headers("cudart") == older / "nvidia/cuda_runtime/include"
    monkeypatch.setattr(sys, "path", [str(newer), str(older)])
    assert find_headers("cudart") == newer / "nvidia/cu13/include"
    make(older, CUDA_13)
    monkeypatch.setattr(sys, "path", [str(older)])
    assert find_headers("cudart") == older / "nvidia/cu13/include"


@pytest.mark.usefixtures("no_other")
def test_nothing_is_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "none.zip")])
    assert set(found().values()) == {None}


def test_what_is_in_no_wheel_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    def absent(name: str) -> str:
        raise pathfinder.StaticLibNotFoundError(name)

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name, place in (
        ("find_nvidia_header_directory", "/cuda/include"),
        ("find_static_lib", "/cuda/lib/libcudadevrt.a"),
        ("find_nvidia_binary_utility", "/cuda/bin/nvcc"),
    ):
        monkeypatch.setattr(pathfinder, name, lambda _, place=place: place)
    assert find_headers("curand") == Path("/cuda/include")
    assert find_static_library("cudadevrt") == Path("/cuda/lib/libcudadevrt.a")
    assert find_tool("nvcc") == Path("/cuda/bin/nvcc")
    monkeypatch.setattr(pathfinder, "find_static_lib", absent)
    assert find_static_library("cudadevrt") is None


def test_a_tool_that_is_not_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_other: None
) -> None:
    folder = make(tmp_path, CUDA_13)
    (folder / "nvidia/cu13/bin/nvcc").chmod(0o644)
    monkeypatch.setattr(sys, "path", [str(folder)])
    assert find_tool("nvcc") is None


@pytest.mark.parametrize(
    ("names", "file", "wheel"),
    [
        (CUDA_13, "nvidia/cu13/lib/libnvrtc.so.13", "nvidia-cuda-nvrtc"),
        (CUDA_12, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12"),
    ],
)
def test_a_library_that_cannot_be_loaded(
    names: tuple[str, ...],
    file: str,
    wheel: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = make(tmp_path, names)
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setattr(toolkit, "_is_loaded", lambda soname: False)
    with pytest.raises(ToolNotFoundError) as caught, bindings_of("nvrtc"):
        pytest.fail("the library is not there")
    message = str(caught.value)
    assert message.startswith(f"NVRTC ({folder / file}) cannot be loaded: ")
    assert message.endswith(f"pip install --force-reinstall --no-deps {wheel}")


def test_a_library_that_is_loaded_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread calls it as soon as it is loaded."""
    folder = make(tmp_path, (*CUDA_13, "nvidia/cu13/lib/libnvrtc-builtins.so.13.0"))
    loaded: list[str] = []
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setattr(toolkit, "_is_loaded", lambda soname: False)
    monkeypatch.setattr(toolkit.ctypes, "CDLL", lambda path: loaded.append(Path(path).name))
    with bindings_of("nvrtc"):
        assert loaded == ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ModuleNotFoundError("No module named 'cuda'", name="cuda"),
            "nvFatbin needs cuda-bindings, which is not installed: pip install 'kspec[cu13]'",
        ),
        (
            ImportError("cannot import name 'nvfatbin' from 'cuda.bindings'"),
            "nvFatbin needs cuda-bindings 13.2, or 12.9.6, or newer; version 12.9.2 has no",
        ),
        (RuntimeError("no file\nat all"), "nvFatbin is not installed: pip install 'kspec[cu13]'"),
    ],
)
def test_what_is_missing_is_what_is_advised(
    error: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "12.9.2")
    with pytest.raises(ToolNotFoundError) as caught, bindings_of("nvfatbin"):
        raise error
    assert str(caught.value).startswith(message)
    assert "at all" not in str(caught.value) and "'kspec[cu12]'" in str(caught.value)


def test_a_library_that_is_there_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, CUDA_13)
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setattr(toolkit, "_is_loaded", lambda soname: True)
    with pytest.raises(ToolNotFoundError) as caught, bindings_of("nvrtc"):
        raise RuntimeError("Function nvrtcNew not found")
    message = str(caught.value)
    assert "is not installed" not in message and "does not work with cuda-bindings" in message
    assert message.endswith("cause: RuntimeError: Function nvrtcNew not found")


def test_libraries_that_only_the_path_has(tmp_path: Path) -> None:
    """As in pip's isolated builds: ``site.getsitepackages()`` has nothing, ``sys.path`` has all."""
    wheels = importlib.util.find_spec("nvidia")
    cuda = importlib.util.find_spec("cuda")
    if wheels is None or find_static_library("cudadevrt") is None:
        pytest.skip("the CUDA toolkit is not installed as wheels")
    assert cuda is not None and wheels.submodule_search_locations is not None
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    numpy = Path(np.__file__).parent
    sources = (numpy, numpy.with_name("numpy.libs"), *(cuda.submodule_search_locations or ()))
    for source in (*map(Path, sources), *map(Path, wheels.submodule_search_locations)):
        if source.exists():
            (overlay / source.name).symlink_to(source)
    command = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "empty")]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [tmp_path / "empty/bin/python", "-W", "error", "-c", ONLY_ON_THE_PATH],
        env={**environment(ROOT, overlay), "CUDA_PATH": "", "CUDA_HOME": "", "CONDA_PREFIX": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    arch, code, *places = done.stdout.splitlines()
    assert (arch, code) == ("sm_90,compute_90", r"b'\x7fELF'")
    real = Path(next(iter(wheels.submodule_search_locations))).resolve()
    assert all(Path(place).is_relative_to(real) for place in places) and len(places) >= 2
