"""The functions that a `kspec.ir.nodes.BuiltinCall` may name, and how each is said in CUDA C++.

>>> BUILTINS["remainder"].text.format("x", "y")
'kspec::ufunc::remainder(x, y)'
>>> BUILTINS["add"].spelling("float32", "float32").format("x", "y")
'x + y'

A function has the name of NumPy's ufunc (``divmod.0`` is the first result of ``divmod``), of
another NumPy function, or of one in ``cupyx.scipy.special``.  Its operands have the dtypes of one
of the ufunc's loops, converted beforehand; what it returns is converted to the loop's output type
before anything else is done with it, since C++ computes in ``int`` and in ``float`` what NumPy has
in 8 and 16 bits.  The meaning is NumPy's, to the last special value, and where NumPy raises or
leaves it to the machine:

* An integer to a negative power is cut off towards zero: 1, -1 or 0.
* The reciprocal of the integer zero is 0, as is every integer divided by zero.
* A shift by less than nothing is one by as many bits as there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kspec.dataclass import dataclass
from kspec.model import dtypes

_HEADER = "kspec/ufuncs.cuh"


@dataclass(frozen=True)
class Builtin:
    """One function.

    Attributes
    ----------
    name : str
        Its key in `BUILTINS`.
    text : str
        An expression of CUDA C++ with ``{0}``, ``{1}``, ... for its operands, right for every loop.
        The operands are names, calls, literals without a sign, or in parentheses; an expression
        that is not a call is put in parentheses to be an operand.
    arity : int
        How many operands it takes.
    plain : str
        The expression that a reader expects, right where all operands are of one dtype of these
        `kinds`; empty if `text` is that.
    kinds : str
        Letters of `kspec.model.dtypes.DType.kind`.
    """

    name: str
    text: str
    arity: int
    plain: str = ""
    kinds: str = ""

    def spelling(self, *types: str) -> str:
        """Return the simplest expression for operands of these dtypes, as `text` is one."""
        if self.plain and len(set(types)) == 1 and dtypes.lookup(types[0]).kind in self.kinds:
            return self.plain
        return self.text

    @property
    def header(self) -> str:
        """The header that `text` needs; `kspec.render` finds it by itself."""
        return _HEADER if "kspec::ufunc::" in self.text else ""


def _ours(name: str, arity: int, plain: str = "", kinds: str = "", function: str = "") -> Builtin:
    operands = ", ".join(f"{{{k}}}" for k in range(arity))
    return Builtin(name, f"kspec::ufunc::{function or name}({operands})", arity, plain, kinds)


def _cuda(name: str, arity: int = 1, function: str = "") -> Builtin:
    operands = ", ".join(f"{{{k}}}" for k in range(arity))
    return Builtin(name, f"{function or name}({operands})", arity)


_TRUTH = "kspec::ufunc::truth({0})", "kspec::ufunc::truth({1})"

# Kinds of dtypes: b bool, i signed, u unsigned, f floating, c complex.
_TABLE = (
    # Arithmetic. C++'s signed overflow is undefined; short unsigned factors become signed ones.
    _ours("add", 2, "{0} + {1}", "ufc"),
    _ours("subtract", 2, "{0} - {1}", "ufc"),
    _ours("multiply", 2, "{0} * {1}", "fc"),
    Builtin("divide", "{0} / {1}", 2),
    _ours("floor_divide", 2),
    _ours("remainder", 2),
    _ours("divmod.0", 2, function="floor_divide"),
    _ours("divmod.1", 2, function="remainder"),
    _ours("fmod", 2),
    _ours("power", 2, "pow({0}, {1})", "fc"),
    _cuda("float_power", 2, "pow"),
    _ours("negative", 1, "-{0}", "ufc"),
    Builtin("positive", "+{0}", 1),
    _ours("absolute", 1, "fabs({0})", "f"),
    _cuda("fabs"),
    _ours("sign", 1),
    _ours("heaviside", 2),
    _ours("square", 1),
    _ours("reciprocal", 1, "1 / {0}", "f"),
    _ours("gcd", 2),
    _ours("lcm", 2),
    _ours("conjugate", 1, "conj({0})", "c"),
    # Rounding.
    _cuda("rint"),
    _ours("floor", 1, "floor({0})", "f"),
    _ours("ceil", 1, "ceil({0})", "f"),
    _ours("trunc", 1, "trunc({0})", "f"),
    # Powers and logarithms.
    _cuda("sqrt"),
    _cuda("cbrt"),
    _cuda("exp"),
    _ours("exp2", 1, "exp2({0})", "f"),
    _cuda("expm1"),
    _cuda("log"),
    _cuda("log2"),
    _cuda("log10"),
    _cuda("log1p"),
    _ours("logaddexp", 2),
    _ours("logaddexp2", 2),
    # Angles.
    *(_cuda(name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")),
    *(_cuda(f"arc{name}", function=f"a{name}") for name in ("sin", "cos", "tan")),
    *(_cuda(f"arc{name}", function=f"a{name}") for name in ("sinh", "cosh", "tanh")),
    _cuda("arctan2", 2, "atan2"),
    _cuda("hypot", 2),
    _ours("degrees", 1),
    _ours("rad2deg", 1, function="degrees"),
    _ours("radians", 1),
    _ours("deg2rad", 1, function="radians"),
    # Bits.
    Builtin("bitwise_and", "{0} & {1}", 2),
    Builtin("bitwise_or", "{0} | {1}", 2),
    Builtin("bitwise_xor", "{0} ^ {1}", 2),
    _ours("invert", 1, "~{0}", "iu"),
    _ours("left_shift", 2),
    _ours("right_shift", 2),
    _ours("bitwise_count", 1),
    # Comparisons: C++ orders no complex numbers, and takes -1 for more than any unsigned number.
    _ours("greater", 2, "{0} > {1}", "biuf"),
    _ours("greater_equal", 2, "{0} >= {1}", "biuf"),
    _ours("less", 2, "{0} < {1}", "biuf"),
    _ours("less_equal", 2, "{0} <= {1}", "biuf"),
    _ours("equal", 2, "{0} == {1}", "biufc"),
    Builtin("not_equal", "!kspec::ufunc::equal({0}, {1})", 2, "{0} != {1}", "biufc"),
    Builtin("logical_and", f"{_TRUTH[0]} && {_TRUTH[1]}", 2, "{0} && {1}", "biuf"),
    Builtin("logical_or", f"{_TRUTH[0]} || {_TRUTH[1]}", 2, "{0} || {1}", "biuf"),
    Builtin("logical_xor", f"{_TRUTH[0]} != {_TRUTH[1]}", 2, "{0} != {1}", "b"),
    Builtin("logical_not", f"!{_TRUTH[0]}", 1, "!{0}", "biuf"),
    _ours("maximum", 2),
    _ours("minimum", 2),
    _ours("fmax", 2, "fmax({0}, {1})", "f"),
    _ours("fmin", 2, "fmin({0}, {1})", "f"),
    # Classes and parts of floating numbers.
    _ours("isfinite", 1, "isfinite({0})", "fc"),
    _ours("isinf", 1, "isinf({0})", "fc"),
    _ours("isnan", 1, "isnan({0})", "fc"),
    _ours("isposinf", 1),
    _ours("isneginf", 1),
    _cuda("signbit"),
    _cuda("copysign", 2),
    _cuda("nextafter", 2),
    _ours("spacing", 1),
    _ours("ldexp", 2),
    _ours("frexp.0", 1, function="frexp_fraction"),
    _ours("frexp.1", 1, function="frexp_exponent"),
    _ours("modf.0", 1, function="modf_fraction"),
    _cuda("modf.1", function="trunc"),
    _ours("real", 1),
    _ours("imag", 1),
    _ours("angle", 1),
    # The condition is a bool.
    Builtin("where", "{0} ? {1} : {2}", 3),
    _ours("clip", 3),
    # The value, and what NaN, infinity and -infinity become, of the type of its parts.
    _ours("nan_to_num", 4),
    # No ufuncs of NumPy: cupy.rsqrt and cupyx.scipy.special, for float32 and float64.
    _cuda("rsqrt"),
    _cuda("exp10"),
    _ours("xlogy", 2),
    _ours("xlog1py", 2),
    *(_ours(name, 1) for name in ("entr", "expit", "logit")),
    *(_cuda(name) for name in ("erf", "erfc", "erfinv", "erfcinv", "erfcx")),
    _cuda("ndtr", function="normcdf"),
    _cuda("ndtri", function="normcdfinv"),
    _cuda("gamma", function="tgamma"),
    _cuda("gammaln", function="lgamma"),
    *(_cuda(name) for name in ("j0", "j1", "y0", "y1")),
    _cuda("i0", function="cyl_bessel_i0"),
    _cuda("i1", function="cyl_bessel_i1"),
)

BUILTINS: Mapping[str, Builtin] = MappingProxyType({row.name: row for row in _TABLE})

_PRODUCT = "it sums products over an axis; call it outside"
UNSUPPORTED: Mapping[str, str] = MappingProxyType(
    {
        "isnat": "kernels have no dates",
        "matmul": _PRODUCT,
        "matvec": _PRODUCT,
        "vecdot": _PRODUCT,
        "vecmat": _PRODUCT,
    }
)
"""NumPy's other ufuncs, and why no kernel has them."""
