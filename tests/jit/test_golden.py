"""Python in, the IR and the CUDA C++ out, and what is said of functions that cannot be kernels.

``kernels.py`` of a case has functions, each with the types of its arguments in ``CASES``:
``f4[2]`` is a C-contiguous array of two axes, ``f4[2]~`` any other one.
"""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

from kspec.errors import JitError
from kspec.ir.types import ArrayType, Type
from kspec.jit.build_ir import build
from kspec.jit.capture import capture
from kspec.model import dtypes
from kspec.model.stages import CudaSource, Target
from tests.compiling import compiled
from tests.golden_cases import cases, read_case

_TYPE = re.compile(r"(\{.*?\}|\w+)(?:\[(\d)\](~?))?")


def types_of(text: str) -> list[Type]:
    found: list[Type] = []
    for dtype, ndim, strided in _TYPE.findall(text):
        name = dtypes.canonical_name(dtype)
        found.append(ArrayType(name, int(ndim), not strided) if ndim else name)
    return found


def functions_of(text: str) -> list[tuple[Any, str, str]]:
    """Return functions, the types of their arguments, and the mode."""
    name = "kernels.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"__name__": "kernels"}
    exec(compile(text, name, "exec"), space)
    return [(*case, "cuda")[:3] for case in space["CASES"]]


def shown(function: Any, types: str, mode: str) -> str:
    try:
        built = build(capture(function), types_of(types), mode)
    except JitError as error:
        kinds = [one.__name__ for one in type(error).__mro__]
        return f"{kinds[0]} ({kinds[2]})\n{error}"
    return f"{built.ir()}\n\n{built.text(lines=False)}"


@pytest.mark.parametrize("path", cases("jit"), ids=lambda path: path.stem)
def test_nvrtc_compiles_it(path: Path) -> None:
    for function, types, mode in functions_of(read_case(path).files["kernels.py"]):
        try:
            built = build(capture(function), types_of(types), mode)
        except JitError:
            continue
        source = CudaSource("kernel.cu", built.text(lines=False))
        assert compiled(source, Target("compute_80")).code


@pytest.mark.parametrize("path", cases("jit"), ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    case = read_case(path)
    found = functions_of(case.files["kernels.py"])
    text = "\n\n".join(f"==== {types}\n{shown(f, types, mode)}" for f, types, mode in found)
    case.check(text, request.config.getoption("--update-golden"))
