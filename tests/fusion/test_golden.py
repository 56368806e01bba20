"""From a traced function to its graph, statements, specs and row program: golden text."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kspec.fusion.program import FusedProgram, trace
from kspec.model.stages import Target
from kspec.render import render_specs, specializations
from kspec.spec.models import ReductionSpec
from tests.compiling import compiled
from tests.fusion.examples import EXAMPLES
from tests.golden_cases import GOLDEN, Case, read_case


def program_of(name: str) -> FusedProgram:
    """Return the program of an example."""
    function, args = EXAMPLES[name]
    return trace(function, args, tuple(inspect.signature(function).parameters), name)


def described(program: FusedProgram) -> Iterator[str]:
    """Return each stage of a program, as text."""
    yield "# graph"
    for one in program.outputs:
        yield str(one.value)
    for kernel in program.kernels:
        spec = kernel.spec
        yield f"\n# kernel {spec.name}: {spec.inputs} -> {spec.outputs}"
        yield "## statements"
        yield from map(str, kernel.body)
        yield "## spec"
        names = ("preamble", "operation") if spec.preamble else ("operation",)
        if isinstance(spec, ReductionSpec):
            yield f"axes: {kernel.axes}"
            names = ("preamble", "reduce_type", "identity", "map", "reduce", "post_map")
        for name in names:
            yield f"{name}: {getattr(spec, name)}"
    if program.rows:
        yield "\n# rows"
        yield from (f"reads {one}: {kind}" for one, kind in program.rows.reads)
        yield from (f"writes {one.value.dtype}: {kind}" for one, kind in program.rows.writes)
        yield program.rows.code


@pytest.mark.parametrize("name", EXAMPLES)
def test_stages(name: str, update_golden: bool) -> None:
    path = GOLDEN / "fusion" / f"{name}.case"
    if update_golden and not path.exists():
        path.parent.mkdir(exist_ok=True)
        source = inspect.getsource(EXAMPLES[name][0])
        Case(path, f"{source}", {}, "").check("new", update=True)
    text = "\n".join(described(program_of(name)))
    read_case(path).check(text, update_golden)
    assert text == "\n".join(described(program_of(name)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_kernels_compile(name: str) -> None:
    for kernel in program_of(name).kernels:
        source = render_specs([kernel.spec], kernel.spec.name)
        wanted = tuple(one.name_expression for one in specializations(kernel.spec))
        image = compiled(replace(source, name_expressions=wanted), Target("compute_90"))
        assert image.log == ""
