"""Every source of these tests compiles for a GPU too: NVRTC needs none."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from kspec.compiler.cuda.nvrtc import nvrtc_version
from kspec.errors import ToolNotFoundError
from kspec.model.stages import CudaSource, Target
from tests.compiling import compiled
from tests.semantics.harness import sources_of


def sources() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return name, source and name expressions (``*NAMES``) of the modules beside this one."""
    found = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.stem == "test_sources":
            continue
        module = importlib.import_module(f"{__package__}.{path.stem}")
        found += [(f"{path.stem}-{name}", text, names) for name, text, names in sources_of(module)]
    return found


@pytest.mark.parametrize(
    ("source", "names"), [pytest.param(text, names, id=name) for name, text, names in sources()]
)
def test_nvrtc_compiles_it(source: str, names: tuple[str, ...]) -> None:
    try:
        nvrtc_version()
    except ToolNotFoundError:
        pytest.skip("NVRTC is not installed")
    assert compiled(CudaSource("test.cu", source, names), Target("sm_90")).code
