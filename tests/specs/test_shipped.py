"""The shipped specs: documented, with an oracle and an example, and right on awkward input."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # registers bfloat16 with NumPy
import numpy as np
import pytest

from kspec.build.properties.examples import window_keywords, windows_of, with_values
from kspec.build.properties.windowed import WindowedArray
from kspec.pipeline import loader_for
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.spec.loader import load_specs
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec
from tests.devices import ArrayDevice

ROOT = Path(__file__).resolve().parents[2]
SPECS = {
    spec.name: spec
    for file in load_specs(ROOT / "specs", ROOT)
    for spec in file.specs
    if not getattr(spec, "forward", "")  # gradients are compared with differences
}
GENERATED = {name: spec for name, spec in SPECS.items() if not isinstance(spec, RawSpec)}


@cache
def kernel(name: str) -> Any:
    spec = SPECS[name]
    kind = ReductionCallable if isinstance(spec, ReductionSpec) else ElementwiseCallable
    return kind(spec.declaration(), loader_for(spec))


def float64(array: Any) -> np.ndarray:
    return np.asarray(array).astype(np.float64)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def tolerance(dtype: str) -> float:
    return {"float16": 1e-3, "bfloat16": 1e-2, "float32": 2e-6}.get(dtype, 1e-12)


def example_array(
    spec: Any, param: Any, binding: dict[str, str], random: np.random.Generator
) -> np.ndarray:
    """Return an argument as the spec's example has it, but small."""
    # Odd enough that nothing divides anything.
    shape = tuple(min(extent, 37) for extent in spec.example.shapes[param.name])
    low, high = spec.example.low, spec.example.high
    dtype = np.dtype(binding.get(param.type, param.type))
    if dtype.kind == "i" and (low, high) == (-1, 1):  # the range that examples have by default
        low, high = -10, 10
    found = random.uniform(low, high, shape).astype(dtype)
    return with_values(param.name, found, spec.example.values.get(param.name, ""))


@pytest.mark.parametrize("name", SPECS)
def test_every_spec_is_documented_and_testable(name: str) -> None:
    spec = SPECS[name]
    summary = spec.doc.strip().split("\n\n")[0]
    assert "\n" not in summary and summary.endswith("."), "one sentence on one line comes first"
    # A reference is that of the reduction, which kernels without it do not have.
    assert spec.reference or "reduce" not in getattr(spec, "forms", ("reduce",))
    assert spec.example is not None
    if isinstance(spec, RawSpec):
        assert spec.params is not None
        size = math.prod(spec.example.grid) * math.prod(spec.example.block)
        assert spec.launch_rules.complete or size >= 1_000_000
    else:
        assert spec.bindings()


CASES = [
    (name, dict(binding))
    for name, spec in GENERATED.items()
    if spec.reference
    for binding in spec.bindings()
]


@pytest.mark.parametrize(
    ("name", "binding"), CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_every_binding_agrees_with_the_reference(
    name: str, binding: dict[str, str], place: ArrayDevice
) -> None:
    spec = GENERATED[name]
    assert spec.example and spec.reference
    random = np.random.default_rng(0)
    sources: dict[str, Any] = dict(spec.example.scalars)
    for param in spec.params:
        if param.name in spec.example.shapes:
            sources[param.name] = example_array(spec, param, binding, random)
    arguments = [
        place.array(source) if isinstance(source, np.ndarray) else source
        for source in (sources[param.name] for param in spec.params if param.name in sources)
    ]
    axes = {"axis": spec.example.axis, "keepdims": spec.example.keepdims}
    keywords = axes if isinstance(spec, ReductionSpec) else window_keywords(spec, spec.example)
    results = as_tuple(kernel(name)(*arguments, **keywords))
    names = {"np": np, "math": math, **axes, **sources, **keywords}
    for window in windows_of(spec, keywords).values():
        names[window.param] = WindowedArray.of(sources[window.param], window)
    references = as_tuple(eval(spec.reference.strip(), names))
    for param, array, reference in zip(spec.outputs, results, references, strict=True):
        result, expected = place.numpy(array), np.asarray(reference)
        assert result.shape == expected.shape
        dtype = binding.get(param.type, param.type)
        assert result.dtype == np.dtype(dtype)
        wide = np.complex128 if result.dtype.kind == "c" else np.float64
        rtol = spec.example.tolerance or tolerance(dtype)
        # Differences of neighbours cancel, and the reference rounds in another order.
        cancels = isinstance(spec, ElementwiseSpec) and (spec.windows or spec.has_core)
        # Means of numbers of both signs are as exact as the numbers: half a unit in the last place
        # of one, in float32.
        atol = rtol * (1 if cancels else 3e-2 if isinstance(spec, ReductionSpec) else 1e-2)
        np.testing.assert_allclose(result.astype(wide), expected.astype(wide), rtol=rtol, atol=atol)


def test_elementwise_specs_need_no_options() -> None:
    assert all(not spec.options for spec in SPECS.values())
    assert {type(spec) for spec in SPECS.values()} == {ElementwiseSpec, ReductionSpec, RawSpec}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logsumexp_of_infinities(dtype: str, place: ArrayDevice) -> None:
    inf, nan = np.inf, np.nan
    rows = np.array(
        [[-inf, -inf, -inf], [-inf, 0, -inf], [inf, 1, -inf], [inf, inf, 0], [0, nan, 1]], dtype
    )
    result = place.numpy(kernel("logsumexp")(place.array(rows), axis=1))
    np.testing.assert_array_equal(result, np.array([-inf, 0, inf, inf, nan], dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logsumexp_of_huge_values(dtype: str, place: ArrayDevice) -> None:
    huge = float(np.finfo(dtype).max) / 4
    rows = np.array([[huge, huge, -huge], [-huge, -huge, -huge]], dtype)
    result = place.numpy(kernel("logsumexp")(place.array(rows), axis=1))
    np.testing.assert_allclose(float64(result), [huge, -huge], rtol=tolerance(dtype))


def test_logsumexp_of_long_rows_and_of_nothing(place: ArrayDevice) -> None:
    rows = np.random.default_rng(1).normal(scale=30, size=(3, 200_000))
    result = place.numpy(kernel("logsumexp")(place.array(rows), axis=1))
    np.testing.assert_allclose(result, np.logaddexp.reduce(rows, axis=1), rtol=1e-12)
    nothing = place.numpy(kernel("logsumexp")(place.empty((2, 0)), axis=1))
    np.testing.assert_array_equal(nothing, [-np.inf, -np.inf])


def test_logsumexp_of_one_element_is_that_element(place: ArrayDevice) -> None:
    values = np.linspace(-80, 80, 33, dtype=np.float32)[:, None]
    result = place.numpy(kernel("logsumexp")(place.array(values), axis=1))
    np.testing.assert_array_equal(result, values[:, 0])


def test_gelu_keeps_its_relative_precision_in_the_tail(place: ArrayDevice) -> None:
    x = np.linspace(-12, 12, 201, dtype=np.float32)
    result = place.numpy(kernel("gelu_bias")(place.array(x), 0.0))
    expected = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64)]
    np.testing.assert_allclose(result, expected, rtol=3e-5)


def test_gelu_takes_a_bias_for_each_column(place: ArrayDevice) -> None:
    x = np.zeros((4, 3), np.float32)
    bias = np.array([-1, 0, 1], np.float32)
    result = place.numpy(kernel("gelu_bias")(place.array(x), place.array(bias)))
    expected = np.broadcast_to([-0.15865525, 0, 0.84134475], (4, 3))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rms_scale_of_zeros_is_finite(place: ArrayDevice) -> None:
    result = place.numpy(kernel("rms_scale")(place.zeros((2, 8), "float16"), 1e-6, axis=-1))
    np.testing.assert_array_equal(result, np.array([1000, 1000], np.float16))


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
def test_rms_scale_counts_the_elements_of_any_axes(axis: Any, place: ArrayDevice) -> None:
    x = np.random.default_rng(2).normal(size=(3, 5, 7))
    result = place.numpy(kernel("rms_scale")(place.array(x), 0.0, axis=axis))
    np.testing.assert_allclose(result, 1 / np.sqrt(np.mean(x * x, axis=axis)), rtol=1e-12)


def test_rms_scale_refuses_an_array_of_eps(place: ArrayDevice) -> None:
    with pytest.raises(TypeError, match="eps is read by the reduce or post-map expression"):
        kernel("rms_scale")(place.zeros((2, 8)), place.zeros((2, 8)), axis=1)
