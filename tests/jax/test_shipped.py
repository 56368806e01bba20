"""Every shipped elementwise and reduction kernel in JAX, against its reference."""

from __future__ import annotations

import importlib
import math
from typing import Any

import ml_dtypes  # noqa: F401  # registers bfloat16 with NumPy
import numpy as np
import pytest

from kspec.build.properties.examples import windows_of
from kspec.build.properties.windowed import WindowedArray
from kspec.spec.loader import load_specs
from kspec.spec.models import RawSpec, ReductionSpec
from tests.projects import ROOT
from tests.specs.test_shipped import example_array

jax = pytest.importorskip("jax")

import kspec.jax  # noqa: E402

SPECS = {
    f"{file.stem}.{spec.name}": spec
    for file in load_specs(ROOT / "specs", ROOT)
    for spec in file.specs
    if not isinstance(spec, RawSpec) and spec.reference  # gradients are in test_gradients.py
}
CASES = [(name, dict(binding)) for name, spec in SPECS.items() for binding in spec.bindings()]
BATCH = 3
TOLERANCES = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 2e-6}


def function(name: str) -> Any:
    module, _, kernel = name.partition(".")
    return kspec.jax.function(getattr(importlib.import_module(f"kspec_kernels.{module}"), kernel))


def sources(spec: Any, binding: dict[str, str], seed: int = 0) -> dict[str, Any]:
    """Return arguments as the spec's example has them, but small."""
    random = np.random.default_rng(seed)
    made: dict[str, Any] = dict(spec.example.scalars)
    for param in spec.inputs:
        if param.name in spec.example.shapes:
            made[param.name] = example_array(spec, param, binding, random)
    return {param.name: made[param.name] for param in spec.inputs}


def options(spec: Any, binding: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(spec, ReductionSpec):
        found = {"axis": spec.example.axis, "keepdims": spec.example.keepdims}
    found |= spec.example.sizes
    decided = {param.type for param in spec.inputs}
    free = {param.type for param in spec.outputs if len(param.type) == 1} - decided
    return found | ({"dtype": binding[free.pop()]} if free else {})


def reference(spec: Any, given: dict[str, Any]) -> tuple[Any, ...]:
    axes = {"axis": spec.example.axis, "keepdims": spec.example.keepdims}
    looped = [
        np.shape(given[one.name])[: np.ndim(given[one.name]) - len(one.core)]
        for one in spec.inputs
        if not one.raw
    ]
    shape = np.broadcast_shapes(*looped)
    outputs = {one.name: np.empty(shape) for one in spec.outputs if one.raw}
    sizes = spec.example.sizes
    windows = windows_of(spec, sizes).items()
    near = {name: WindowedArray.of(given[name], window) for name, window in windows}
    names = {"np": np, "math": math, **axes, **sizes, **outputs, **given, **near}
    found = eval(spec.reference.strip(), names)
    return found if isinstance(found, tuple) else (found,)


def compare(spec: Any, results: Any, expected: tuple[Any, ...]) -> None:
    results = results if isinstance(results, tuple) else (results,)
    for result, wanted in zip(results, expected, strict=True):
        assert isinstance(result, jax.Array)
        assert result.shape == np.shape(wanted)
        found = np.asarray(result)
        wider = np.complex128 if found.dtype.kind == "c" else np.float64
        rtol = spec.example.tolerance or TOLERANCES.get(str(found.dtype), 1e-12)
        # Differences of neighbours cancel, and the reference rounds in another order. Means of
        # numbers of both signs are as exact as the numbers: half a unit in the last place of one.
        cancels = getattr(spec, "windows", None)
        atol = rtol * (1 if cancels else 3e-2 if isinstance(spec, ReductionSpec) else 1e-2)
        np.testing.assert_allclose(
            found.astype(wider), np.asarray(wanted).astype(wider), rtol=rtol, atol=atol
        )


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("name", "binding"), CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_compiled(name: str, binding: dict[str, str], place: str) -> None:
    spec = SPECS[name]
    given = sources(spec, binding)
    run, extra = function(name), options(spec, binding)
    arrays = {key: one for key, one in given.items() if isinstance(one, np.ndarray)}

    def program(some: dict[str, Any]) -> Any:
        return run(*(some.get(key, one) for key, one in given.items()), **extra)

    results = jax.jit(program)(arrays)
    compare(spec, results, reference(spec, given))
    shapes = jax.eval_shape(program, arrays)
    assert jax.tree.map(lambda one: (one.shape, one.dtype), results) == jax.tree.map(
        lambda one: (one.shape, one.dtype), shapes
    )


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", SPECS)
def test_batched(name: str, place: str) -> None:
    """Batches are along another axis for each argument; numbers are the same for all."""
    spec = SPECS[name]
    binding = dict(spec.bindings()[0])
    batch = [sources(spec, binding, seed) for seed in range(BATCH)]
    run, extra = function(name), options(spec, binding)
    axes, given = [], []
    for number, (key, one) in enumerate(batch[0].items()):
        if isinstance(one, np.ndarray):
            axes.append(number % (one.ndim + 1))
            given.append(np.stack([some[key] for some in batch], axis=axes[-1]))
        else:
            axes.append(None)
            given.append(one)
    arrays = [one for one in given if isinstance(one, np.ndarray)]

    def program(*some: Any) -> Any:
        rest = iter(some)
        return run(*(next(rest) if isinstance(one, np.ndarray) else one for one in given), **extra)

    mapped = tuple(axis for axis in axes if axis is not None)
    results = jax.jit(jax.vmap(program, mapped))(*arrays)
    singles = [reference(spec, some) for some in batch]
    compare(spec, results, tuple(np.stack(some) for some in zip(*singles, strict=True)))
