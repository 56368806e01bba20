"""The kernels this repository ships, each at full size: the points of the roofline."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cases import Case
from benchmarks.kernels import Text
from benchmarks.operands import Operands, array, line, square
from benchmarks.references import Axis, Ops

ROOT = Path(__file__).resolve().parents[1]
F16, F32, F64 = "float16", "float32", "float64"
C64, C128 = "complex64", "complex128"
_THREADS = 256


def generated_package() -> Any:
    """Return ``kspec_kernels``, from this repository if it is not installed."""
    try:
        return importlib.import_module("kspec_kernels")
    except ModuleNotFoundError:
        sys.path.append(str(ROOT / "generated"))
        return importlib.import_module("kspec_kernels")


def generated_function(name: str) -> Callable[..., Any]:
    """Return a generated function by module and name: ``"math.squared_diff"``."""
    stem, _, function = name.partition(".")
    generated_package()
    kernel: Callable[..., Any] = getattr(importlib.import_module(f"kspec_kernels.{stem}"), function)
    return kernel


def kernel_of(case: Case) -> Callable[..., Any]:
    """Return what a case calls: its generated function; raw ones get grid and block."""
    kernel = generated_function(case.text.name)
    tail = _RAW.get(case.text.name)
    if tail is None:
        return kernel

    def launch(x: Any, y: Any, out: Any) -> None:
        grid = -(-x.size // _THREADS)
        kernel((grid,), (_THREADS,), x, y, out, *tail(x.size))

    return launch


# What follows the arrays of a raw kernel, for n elements.
_RAW: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "raw.test_sum": lambda n: (n,),
    "vectors.vector_add": lambda n: (n,),
    "complex.complex_axpy": lambda n: (2.0,),
}


def _case(
    name: str,
    inputs: Operands,
    reference: Callable[..., Any],
    flops: int,
    output: str = "",
    kind: str = "elementwise",
    axis: Axis | None = None,
    **more: Any,
) -> Case:
    options = {key: more.pop(key) for key in ("scalars", "tolerance") if key in more}
    text = Text(kind, (name,), reference, (output,), flops=flops, **options)
    return Case(
        f"{name} {inputs(1 << 20)[0].dtype}", text, inputs, axis=axis, section="shipped", **more
    )


def _flat(*dtypes: str) -> Operands:
    return lambda n: [array(dtype, line(n)) for dtype in dtypes]


def _whole_blocks(*dtypes: str) -> Operands:
    """Return operands for kernels that do not check bounds."""
    return lambda n: [array(dtype, line(-(-n // _THREADS) * _THREADS)) for dtype in dtypes]


def _matrix(dtype: str) -> Operands:
    return lambda n: [array(dtype, square(n))]


def _with_row(dtype: str) -> Operands:
    return lambda n: [array(dtype, square(n)), array(dtype, square(n)[1:])]


def _squared(ops: Ops, x: Any, y: Any) -> Any:
    return (ops.wide(x) - ops.wide(y)) ** 2


def _gelu(ops: Ops, x: Any, bias: Any) -> Any:
    v = ops.wide(x) + ops.wide(bias)
    return 0.5 * v * ops.erfc(-v * 0.7071067811865476)


def _sum(ops: Ops, x: Any, y: Any) -> Any:
    return ops.wide(x) + ops.wide(y)


def _rms(ops: Ops, x: Any, eps: float, axis: Axis) -> Any:
    square_sum = ops.sum(ops.wide(x) * ops.wide(x), axis)
    return (square_sum / ops.count(x, axis) + eps) ** -0.5


def _norm(ops: Ops, x: Any, axis: Axis) -> Any:
    return ops.sqrt(ops.sum(ops.wide(x) * ops.wide(x), axis))


CASES = (
    _case("math.squared_diff", _flat(F32, F32), _squared, 2),
    _case("math.squared_diff_generic", _flat(F64, F64), _squared, 2, scale=0.5),
    _case("math.squared_diff_generic", _flat(F16, F16), _squared, 2),
    _case(
        "math.add_reverse",
        _flat(F32, F32),
        lambda ops, x, y: ops.wide(x) + ops.flip(ops.wide(y)),
        1,
    ),
    _case(
        "activations.clipped_relu",
        _flat(F64),
        lambda ops, x, cap: ops.wide(x) * (ops.wide(x) < cap) + cap * (ops.wide(x) >= cap),
        2,
        scalars=(0.75,),
        scale=0.5,
    ),
    _case("activations.gelu_bias", _with_row(F32), _gelu, 5),
    _case("activations.gelu_bias", _with_row(F16), _gelu, 5),
    _case(
        "complex.abs_squared",
        _flat(C128),
        lambda ops, z: ops.abs(ops.wide(z)) ** 2,
        3,
        F64,
        scale=0.25,
    ),
    _case(
        "complex.complex_axpy",
        _whole_blocks(C64, C64),
        lambda ops, x, y: ops.wide(x) + 2.0 * ops.wide(y),
        4,
        scale=0.5,
    ),
    _case("raw.test_sum", _flat(F32, F32), _sum, 1),
    _case("vectors.vector_add", _flat(F64, F64), _sum, 1, scale=0.5),
    _case("norms.l2norm", _matrix(F32), _norm, 2, kind="reduction", axis=(1,)),
    _case("norms.l2norm", _matrix(F16), _norm, 2, kind="reduction", axis=(0,)),
    _case(
        "norms.l2_norm_sq",
        _flat(F64),
        lambda ops, x, axis: ops.sum(ops.wide(x) * ops.wide(x), axis),
        2,
        kind="reduction",
        scale=0.5,
    ),
    _case(
        "norms.rms_scale",
        _matrix(F32),
        _rms,
        2,
        kind="reduction",
        axis=(1,),
        scalars=(1e-6,),
    ),
    _case(
        "norms.logsumexp",
        _matrix(F32),
        lambda ops, x, axis: ops.log(ops.sum(ops.exp(ops.wide(x)), axis)),
        5,
        kind="reduction",
        axis=(1,),
    ),
)
