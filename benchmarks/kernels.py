"""What is computed: CUDA text, the values it should give, and the one call others have for it.

A `Text` holds the arguments of ``ElementwiseKernel`` or ``ReductionKernel``, which kspec and CuPy
share.  Its `reference` is written with an `Ops`, so that the same lines check results in float64
with NumPy, CuPy or torch, and, unwidened, are what NumPy would be asked to do.

The input of reductions is called ``xs``: CuPy replaces parameter names inside the expressions as
plain text, and an ``x`` would break ``max``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.references import Axis, Ops

Reference = Callable[..., Any]
# Relative, by the dtype of the output; sums of many elements round more than once.
TOLERANCES = {
    "float16": 2e-3,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
}


@dataclass(frozen=True)
class Text:
    """One kernel.

    Attributes
    ----------
    kind : {"elementwise", "reduction"}
        Class of the kernel.
    arguments : tuple
        Positional arguments of the constructor, up to the name.
    reference : callable
        ``reference(ops, *inputs)``, for reductions with ``axis`` last: the outputs, or one.
    outputs : tuple of str
        dtype of each output; "" is that of the first input.
    options : mapping
        Keywords of the constructor.
    flops : int
        Operations for each element; calls of a mathematical function count as one.
    torch : callable or None
        One call of torch that moves the same bytes:
        ``torch(torch_module, *inputs, outputs)``, for reductions ``(..., axis)``.
    torch_name : str
        What it is called.
    cupy : callable or None
        One call of CuPy instead of the same text, where CuPy cannot compile that.
    cupy_inputs : callable or None
        Inputs as that call takes them, made before it is timed: ``cupy_inputs(cupy, *inputs)``.
    scalars : tuple of float
        Passed after the arrays, as Python numbers.
    tolerance : float or None
        Relative error that is allowed; None: by dtype.
    form : str
        Method of a reduction that is called instead of the kernel: ``"scan"``, ``"segments"``,
        ``"by_key"`` or ``"window"``.
    keywords : mapping
        Of calls of that form.
    core : tuple of int
        Number of core dimensions of each input; none: no input has any.
    """

    kind: str
    arguments: tuple[Any, ...]
    reference: Reference
    outputs: tuple[str, ...] = ("",)
    options: Mapping[str, Any] = field(default_factory=dict)
    flops: int = 1
    torch: Callable[..., Any] | None = None
    torch_name: str = ""
    cupy: Callable[..., Any] | None = None
    cupy_inputs: Callable[..., Sequence[Any]] | None = None
    scalars: tuple[float, ...] = ()
    tolerance: float | None = None
    form: str = ""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    core: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the CUDA kernel."""
        return str(self.arguments[-1])

    def build(self, module: Any) -> Any:
        """Return the kernel of `kspec` or `cupy`."""
        kinds = {"elementwise": "ElementwiseKernel", "reduction": "ReductionKernel"}
        return getattr(module, kinds[self.kind])(*self.arguments, **self.options)

    def called(self, kernel: Any) -> Any:
        """Return the kernel, or the form of it that is called."""
        return getattr(kernel, self.form) if self.form else kernel

    def output_dtypes(self, first_input: str) -> tuple[str, ...]:
        """Return the dtype of each output."""
        return tuple(dtype or first_input for dtype in self.outputs)


def _elementwise(
    in_params: str, out_params: str, operation: str, name: str, reference: Reference, **more: Any
) -> Text:
    return Text("elementwise", (in_params, out_params, operation, name), reference, **more)


def _reduction(
    parameters: tuple[str, str],
    expressions: tuple[str, str, str],
    identity: str,
    name: str,
    reference: Reference,
    **more: Any,
) -> Text:
    return Text("reduction", (*parameters, *expressions, identity, name), reference, **more)


# ---- elementwise


def _squared(ops: Ops, x: Any, y: Any) -> Any:
    difference = ops.wide(x) - ops.wide(y)
    return difference * difference


def _torch_sub(torch: Any, x: Any, y: Any, outputs: Any) -> Any:
    return torch.sub(x, y, out=outputs[0])


SQUARED_DIFF = _elementwise(
    "T x, T y",
    "T z",
    "z = (x - y) * (x - y)",
    "squared_diff",
    _squared,
    flops=2,
    torch=_torch_sub,
    torch_name="sub",
)
ADD = _elementwise(
    "T x, T y",
    "T z",
    "z = x + y",
    "add",
    lambda ops, x, y: ops.wide(x) + ops.wide(y),
    torch=lambda torch, x, y, outputs: torch.add(x, y, out=outputs[0]),
    torch_name="add",
)
ADD_F32 = replace(
    ADD, arguments=("float32 x, float32 y", "float32 z", "z = x + y", "add_f32"), torch=None
)
# Half and float have no operator of their own in every library's headers.
SQUARED_DIFF_MIXED = _elementwise(
    "X x, Y y",
    "Z z",
    "z = ((Z)x - (Z)y) * ((Z)x - (Z)y)",
    "squared_diff_mixed",
    _squared,
    outputs=("float32",),
    flops=2,
    torch=_torch_sub,
    torch_name="sub",
)
MULTIPLY = _elementwise(
    "T x, T y",
    "T z",
    "z = x * y",
    "multiply",
    lambda ops, x, y: ops.wide(x) * ops.wide(y),
    torch=lambda torch, x, y, outputs: torch.mul(x, y, out=outputs[0]),
    torch_name="mul",
)
AXPY = _elementwise(
    "T x, T y, T factor",
    "T z",
    "z = factor * x + y",
    "axpy",
    lambda ops, x, y, factor: factor * ops.wide(x) + ops.wide(y),
    flops=2,
    scalars=(2.5,),
    torch=lambda torch, x, y, factor, outputs: torch.add(y, x, alpha=factor, out=outputs[0]),
    torch_name="add(alpha)",
)
FOUR = _elementwise(
    "T p, T q, T r, T s",
    "T z",
    "z = p * q + r * s",
    "four_inputs",
    lambda ops, p, q, r, s: ops.wide(p) * ops.wide(q) + ops.wide(r) * ops.wide(s),
    flops=3,
)
GAUSSIAN = _elementwise(
    "T x",
    "T z",
    "z = exp(-x * x)",
    "gaussian",
    lambda ops, x: ops.exp(-ops.wide(x) * ops.wide(x)),
    flops=3,
    torch=lambda torch, x, outputs: torch.exp(x, out=outputs[0]),
    torch_name="exp",
)
MAXIMUM = _elementwise(
    "T x, T y",
    "T z",
    "z = x > y ? x : y",
    "maximum",
    lambda ops, x, y: ops.maximum(ops.wide(x), ops.wide(y)),
    torch=lambda torch, x, y, outputs: torch.maximum(x, y, out=outputs[0]),
    torch_name="maximum",
)
LESS = _elementwise(
    "T x, T y",
    "bool z",
    "z = x < y",
    "less",
    lambda ops, x, y: x < y,
    outputs=("bool",),
    torch=lambda torch, x, y, outputs: torch.lt(x, y, out=outputs[0]),
    torch_name="lt",
)


def _convert(dtype: str) -> Text:
    return _elementwise(
        "S x",
        "T z",
        "z = x",
        "convert",
        lambda ops, x: ops.convert(x, dtype),
        outputs=(dtype,),
        torch=lambda torch, x, outputs: outputs[0].copy_(x),
        torch_name="copy_",
    )


TO_FLOAT16 = _convert("float16")
TO_FLOAT32 = _convert("float32")
DEQUANTIZE = _elementwise(
    "int8 q, float32 scale",
    "float32 z",
    "z = q * scale",
    "dequantize",
    lambda ops, q, scale: ops.wide(q) * ops.wide(scale),
    outputs=("float32",),
    torch=lambda torch, q, scale, outputs: torch.mul(q, scale, out=outputs[0]),
    torch_name="mul",
)
SUM_AND_DIFFERENCE = _elementwise(
    "T x, T y",
    "T s, T d",
    "s = x + y; d = x - y",
    "sum_and_difference",
    lambda ops, x, y: (ops.wide(x) + ops.wide(y), ops.wide(x) - ops.wide(y)),
    outputs=("", ""),
    flops=2,
)
POLAR = _elementwise(
    "T r, T angle",
    "T x, T y",
    "x = r * cos(angle); y = r * sin(angle)",
    "polar",
    lambda ops, r, angle: (
        ops.wide(r) * ops.cos(ops.wide(angle)),
        ops.wide(r) * ops.sin(ops.wide(angle)),
    ),
    outputs=("", ""),
    flops=4,
)
POSITION = _elementwise(
    "T x",
    "T z",
    "z = x + (T)(i % 7)",
    "position",
    lambda ops, x: ops.wide(x) + ops.positions(x) % 7,
    flops=2,
)
ADD_REVERSE = _elementwise(
    "T x, raw T y",
    "T z",
    "z = x + y[_ind.size() - i - 1]",
    "add_reverse",
    lambda ops, x, y: ops.wide(x) + ops.flip(ops.wide(y)),
)

# ---- reductions


def _torch_norm(torch: Any, x: Any, outputs: Any, axis: Axis) -> Any:
    return torch.linalg.vector_norm(x, dim=axis, out=outputs[0])


def _norm(ops: Ops, x: Any, axis: Axis) -> Any:
    return ops.sqrt(ops.sum(ops.wide(x) * ops.wide(x), axis))


_L2NORM = ("xs * xs", "a + b", "ys = sqrt(a)")
L2NORM = _reduction(
    ("T xs", "T ys"),
    _L2NORM,
    "0",
    "l2norm",
    _norm,
    flops=2,
    torch=_torch_norm,
    torch_name="vector_norm",
)
# CuPy would add halves in half precision, which overflows; asked for float, both do the same.
L2NORM_HALF = _reduction(
    ("T xs", "T ys"),
    ("(float)xs * (float)xs", "a + b", "ys = sqrt(a)"),
    "0",
    "l2norm_half",
    _norm,
    options={"reduce_type": "float"},
    flops=2,
    torch=_torch_norm,
    torch_name="vector_norm",
)
SUM = _reduction(
    ("T xs", "T ys"),
    ("xs", "a + b", "ys = a"),
    "0",
    "total",
    lambda ops, x, axis: ops.sum(ops.wide(x), axis),
    torch=lambda torch, x, outputs, axis: torch.sum(x, dim=axis, out=outputs[0]),
    torch_name="sum",
)
SUM_INT8 = _reduction(
    ("int8 xs", "int32 ys"),
    ("xs", "a + b", "ys = a"),
    "0",
    "total_int8",
    lambda ops, x, axis: ops.sum(ops.wide(x), axis),
    outputs=("int32",),
    torch=lambda torch, x, outputs, axis: torch.sum(x, dim=axis, dtype=torch.int32, out=outputs[0]),
    torch_name="sum",
)
LARGEST = _reduction(
    ("T xs", "T ys"),
    ("xs", "max(a, b)", "ys = a"),
    "-100",
    "largest",
    lambda ops, x, axis: ops.amax(ops.wide(x), axis),
    torch=lambda torch, x, outputs, axis: torch.amax(x, dim=axis, out=outputs[0]),
    torch_name="amax",
)


def _torch_dot(torch: Any, x: Any, w: Any, outputs: Any, axis: Axis) -> Any:
    if x.ndim == 1:
        return torch.dot(x, w, out=outputs[0])
    if w.ndim == 1:
        return torch.mv(x, w, out=outputs[0])
    if w.shape[1] == 1:
        return torch.mv(x.T, w[:, 0], out=outputs[0])
    return torch.linalg.vecdot(x, w, dim=axis[0], out=outputs[0])


DOT = _reduction(
    ("T xs, T ws", "T ys"),
    ("xs * ws", "a + b", "ys = a"),
    "0",
    "dot",
    lambda ops, x, w, axis: ops.sum(ops.wide(x) * ops.wide(w), axis),
    flops=2,
    torch=_torch_dot,
    torch_name="dot",
)
ARGMAX = _reduction(
    ("T xs", "int64 ys"),
    (
        "Best(xs, _J)",
        "a.value > b.value || (a.value == b.value && a.place < b.place) ? a : b",
        "ys = a.place",
    ),
    "Best()",
    "arg_largest",
    lambda ops, x, axis: ops.argmax(x, axis),
    outputs=("int64",),
    options={
        "reduce_type": "Best",
        "preamble": """
struct Best {
  T value;
  long long place;
  __device__ Best() : value(-1e30), place(0x7fffffffffffffff) {}
  __device__ Best(T v, long long p) : value(v), place(p) {}
};
""",
    },
    torch=lambda torch, x, outputs, axis: torch.argmax(
        x, dim=axis[0] if len(axis) == 1 and x.ndim > 1 else None, out=outputs[0]
    ),
    torch_name="argmax",
    cupy=lambda cupy, x, outputs, axis: cupy.argmax(
        x, axis=axis[0] if len(axis) == 1 and x.ndim > 1 else None, out=outputs[0]
    ),
)
# Chan, Golub and LeVeque (1979): two parts' means and sums of squared deviations, combined.
_MOMENTS = """
struct Moments {
  float count, center, spread, unused;
  __device__ Moments() : count(0), center(0), spread(0), unused(0) {}
  __device__ Moments(T value) : count(1), center(value), spread(0), unused(0) {}
};
__device__ inline Moments merge(const Moments& p, const Moments& q) {
  Moments all;
  all.count = p.count + q.count;
  if (all.count == 0) return all;
  float delta = q.center - p.center, share = q.count / all.count;
  all.center = p.center + delta * share;
  all.spread = p.spread + q.spread + delta * delta * p.count * share;
  return all;
}
"""
VARIANCE = _reduction(
    ("T xs", "T ys"),
    ("Moments(xs)", "merge(a, b)", "ys = a.spread / a.count"),
    "Moments()",
    "spread_of",
    lambda ops, x, axis: ops.variance(ops.wide(x), axis),
    options={"reduce_type": "Moments", "preamble": _MOMENTS},
    flops=8,
    torch=lambda torch, x, outputs, axis: torch.var(x, dim=axis, correction=0, out=outputs[0]),
    torch_name="var",
    tolerance=2e-4,  # counts of 2**28 and shares of them are rounded to 24 bits
)
CENTER_AND_SPREAD = _reduction(
    ("T xs", "T ms, T vs"),
    ("Moments(xs)", "merge(a, b)", "ms = a.center, vs = a.spread / a.count"),
    "Moments()",
    "center_and_spread",
    lambda ops, x, axis: (
        ops.sum(ops.wide(x), axis) / ops.count(x, axis),
        ops.variance(ops.wide(x), axis),
    ),
    outputs=("", ""),
    options={"reduce_type": "Moments", "preamble": _MOMENTS},
    flops=8,
    torch=lambda torch, x, outputs, axis: torch.var_mean(x, dim=axis, correction=0),
    torch_name="var_mean",
    tolerance=2e-4,
)
