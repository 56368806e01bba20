"""A call has the same outputs, or is refused in the same words, wherever it is made."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec.model.infer import Abstract, infer
from tests.profiles import examples

ELEMENTWISE = {
    "agree_scaled": kspec.ElementwiseKernel("T x, T y", "T z", "z = x * y", "agree_scaled"),
    "agree_mixed": kspec.ElementwiseKernel(
        "T x, float32 y", "float32 z, T w", "z = y; w = x", "agree_mixed"
    ),
}
REDUCTIONS = {
    "agree_total": kspec.ReductionKernel(
        "T x, T y", "T z", "x * y", "a + b", "z = a", "0", "agree_total"
    ),
    "agree_largest": kspec.ReductionKernel(
        "T x, T y", "T z", "x + y", "max(a, b)", "z = a", None, "agree_largest"
    ),
}
DTYPES = ("float32", "int32")


@dataclass(frozen=True)
class Drawn:
    """A call of a kernel of two arrays, which may be wrong."""

    name: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    dtypes: tuple[str, str]
    options: tuple[tuple[str, Any], ...]

    @property
    def kernel(self) -> Any:
        return {**ELEMENTWISE, **REDUCTIONS}[self.name]

    def arrays(self) -> list[np.ndarray]:
        return [np.ones(s, d) for s, d in zip(self.shapes, self.dtypes, strict=True)]


SHAPES = st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=3).map(tuple)
AXES = st.one_of(st.none(), st.integers(-4, 3), st.lists(st.integers(-3, 3), max_size=2).map(tuple))


@st.composite
def drawn(draw: Any, names: Any = (*ELEMENTWISE, *REDUCTIONS)) -> Drawn:
    name = draw(st.sampled_from(list(names)))
    first = draw(SHAPES)
    # Mostly shapes that fit, and dtypes that agree.
    second = draw(st.one_of(st.just(first), st.just(first[1:]), SHAPES))
    dtype = draw(st.sampled_from(DTYPES))
    dtypes = dtype, draw(st.sampled_from([dtype, dtype, *DTYPES]))
    options = {}
    if name in REDUCTIONS:
        options = {"axis": draw(AXES), "keepdims": draw(st.booleans())}
    return Drawn(name, (first, second), dtypes, tuple(options.items()))


def outcome(call: Callable[[], Any]) -> Any:
    """Return the shapes and dtypes of outputs, or the class and the words of an error."""
    try:
        found = call()
    except (TypeError, ValueError) as error:  # all classes of kspec for calls are one of these
        return type(error).__name__, str(error)
    outputs = found if isinstance(found, tuple | list) else (found,)
    return [(tuple(one.shape), str(one.dtype).removeprefix("torch.")) for one in outputs]


def eager(call: Drawn) -> Any:
    return outcome(lambda: call.kernel(*call.arrays(), **dict(call.options)))


@settings(max_examples=examples(400), deadline=None)
@given(drawn())
def test_inference_is_what_calls_do(call: Drawn) -> None:
    abstract = [Abstract(s, d) for s, d in zip(call.shapes, call.dtypes, strict=True)]

    def inferred() -> Any:
        types = infer(call.kernel.declaration, abstract, **dict(call.options))
        return [np.lib.stride_tricks.as_strided(np.empty(1, d), types.shape) for d in types.dtypes]

    assert outcome(inferred) == eager(call)


@settings(max_examples=examples(400), deadline=None)
@given(drawn())
def test_torch_agrees(call: Drawn) -> None:
    torch = pytest.importorskip("torch")
    operators = importlib.import_module("kspec.model.operators")
    fake = importlib.import_module("kspec.torch.fake")
    (operator,) = [
        one for one in operators.operators(call.kernel.declaration) if one.overload == ""
    ]
    options = dict(call.options)
    if isinstance(options.get("axis"), int):
        options["axis"] = (options["axis"],)  # as its schema has it
    tensors = map(torch.from_numpy, call.arrays())
    assert outcome(lambda: fake.make_fake(operator)(*tensors, **options)) == eager(call)


@settings(max_examples=examples(400), deadline=None)
@given(drawn())
def test_jax_agrees(call: Drawn) -> None:
    jax = pytest.importorskip("jax")
    function = importlib.import_module("kspec.jax").function(call.kernel)
    arrays = call.arrays()
    options = dict(call.options)
    assert outcome(lambda: jax.eval_shape(lambda *x: function(*x, **options), *arrays)) == eager(
        call
    )


@settings(max_examples=examples(400), deadline=None)
@given(drawn())
def test_dask_agrees(call: Drawn) -> None:
    array = importlib.import_module("dask.array")
    apply = importlib.import_module("kspec.dask").apply
    arrays = [array.from_array(one) for one in call.arrays()]
    found = outcome(lambda: apply(call.kernel, *arrays, **dict(call.options)))
    assert found == eager(call)


@settings(max_examples=examples(400), deadline=None)
@given(drawn(ELEMENTWISE))
def test_fused_calls_agree(call: Drawn) -> None:
    fused = kspec.fuse(lambda x, y: call.kernel(x, y))
    found, wanted = outcome(lambda: fused(*call.arrays())), eager(call)
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        # The class of a fused function's refusals is its own, and the line comes with the words.
        words = wanted[1].removeprefix(f"{call.name}: ")
        assert words.partition("; ")[0] in found[1]
    else:
        assert found == wanted
