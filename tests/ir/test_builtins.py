"""Every function of the table against NumPy: each loop of each ufunc, special values first.

All functions with the same operand types are one kernel with an output for each, once as `text`
and once as `spelling` has it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import kspec
from kspec.ir.builtins import BUILTINS, UNSUPPORTED
from kspec.model.stages import Specialization, Target
from kspec.pipeline import LazySource
from tests.compiling import compiled
from tests.devices import ArrayDevice

Array = npt.NDArray[Any]
Signature = tuple[str, ...]

NAN, INF = float("nan"), float("inf")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
UFUNCS = {
    name: value
    for name, value in vars(np).items()
    if isinstance(value, np.ufunc) and value.__name__ == name
}
LETTERS = {letter: np.dtype(letter).name for letter in "?bBhHiIlLqQefdFD"}
REALS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
EXACT = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))


def numpy_dtype(name: str) -> np.dtype[Any]:
    return BFLOAT16 if name == "bfloat16" else np.dtype(name)


# What has no ufunc, as a function of arrays, and the operand types that it is tested with.
CLIP = np._core.umath.clip  # type: ignore[attr-defined]
ELSEWHERE: Mapping[str, tuple[Callable[..., Array], tuple[Signature, ...]]] = {
    "where": (np.where, tuple(("bool", one, one) for one in ("int8", *REALS[:3], "complex64"))),
    "clip": (CLIP, tuple((one,) * 3 for one in ("int8", "uint64", "float16", *REALS[2:], *COMPLEX))),
    "nan_to_num": (
        lambda x, nan, positive, negative: np.where(
            np.isnan(x), nan, np.where(np.isposinf(x), positive, np.where(np.isneginf(x), negative, x))
        ),
        tuple((one,) * 4 for one in ("float16", "float64")),
    ),
    "real": (np.real, tuple((one,) for one in ("int32", *REALS, *COMPLEX))),
    "imag": (np.imag, tuple((one,) for one in ("int32", *REALS, *COMPLEX))),
    "angle": (np.angle, tuple((one,) for one in (*REALS[2:], *COMPLEX))),
    "isposinf": (np.isposinf, tuple((one,) for one in ("int32", "float16", *REALS[2:]))),
    "isneginf": (np.isneginf, tuple((one,) for one in ("int32", "float16", *REALS[2:]))),
}  # fmt: skip
# Functions that NumPy lacks, at points where their values are in tables.
SPECIAL = {
    "rsqrt": (4.0, 0.5),
    "erf": (1.0, 0.8427007929497149),
    "erfc": (1.0, 0.15729920705028513),
    "erfinv": (0.5, 0.4769362762044699),
    "erfcinv": (0.5, 0.4769362762044699),
    "erfcx": (1.0, 0.427583576155807),
    "ndtr": (1.0, 0.8413447460685429),
    "ndtri": (0.975, 1.959963984540054),
    "gamma": (5.0, 24.0),
    "gammaln": (10.0, 12.801827480081469),
    "j0": (1.0, 0.7651976865579666),
    "j1": (1.0, 0.44005058574493355),
    "y0": (1.0, 0.08825696421567697),
    "y1": (1.0, -0.7812128213002887),
    "i0": (1.0, 1.2660658777520084),
    "i1": (1.0, 0.5651591039924851),
    "exp10": (2.0, 100.0),
    "xlogy": (2.0, 1.3862943611198906),  # of 2 and 2
    "xlog1py": (2.0, 2.1972245773362196),
    "entr": (0.5, 0.34657359027997264),
    "expit": (1.0, 0.7310585786300049),
    "logit": (0.75, 1.0986122886681098),
}

# Units in the last place between CUDA's results or the C library's and NumPy's: the errors that
# both document, added (up to 4 where NumPy computes with vectors).  All other functions are equal,
# to the sign of zero.
TRANSCENDENTAL = """
    exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 cbrt sin cos tan arcsin arccos arctan
    arctan2 angle sinh cosh tanh arcsinh arccosh arctanh
""".split()  # noqa: SIM905  (a list of words reads better)
ULPS = {**dict.fromkeys(TRANSCENDENTAL, 8), "power": 10, "float_power": 6, "hypot": 4}
# Of 16-bit numbers: float's errors, which round to the next one.
SHORT_ULPS = 2
# Of complex numbers, in units of the larger part.
COMPLEX_ULPS = {
    **dict.fromkeys(TRANSCENDENTAL, 24),
    "absolute": 4,
    "multiply": 4,
    "divide": 8,
    "square": 4,
    "reciprocal": 8,
    "sign": 6,
    "sqrt": 6,
    "log1p": 32,  # NumPy's cancels near 0
    "power": 100,  # exp(w log z): the error grows with the exponent
    "float_power": 100,
}
# Which zero is the larger one is nobody's promise.
ANY_ZERO = {"maximum", "minimum", "fmax", "fmin", "clip"}


def loops(name: str) -> Iterator[Signature]:
    """Yield the operand types of each loop that a function has."""
    if name in ELSEWHERE:
        yield from ELSEWHERE[name][1]
        return
    ufunc = UFUNCS[name.split(".")[0]]
    for text in ufunc.types:
        if set(text) <= {*LETTERS, "-", ">"}:
            yield tuple(LETTERS[letter] for letter in text.split("->")[0])
    nothing = (None,) * ufunc.nout
    try:
        found = ufunc.resolve_dtypes((BFLOAT16,) * ufunc.nin + nothing)
    except TypeError:
        return
    if found[0] == BFLOAT16:
        yield ("bfloat16",) * ufunc.nin


def by_signature() -> dict[Signature, list[str]]:
    found: dict[Signature, list[str]] = {}
    for name in BUILTINS:
        if name not in SPECIAL:
            for signature in dict.fromkeys(loops(name)):
                found.setdefault(signature, []).append(name)
    return found


GROUPS = by_signature()


def reference(name: str, arguments: list[Array]) -> Array:
    if name in ELSEWHERE:
        return np.asarray(ELSEWHERE[name][0](*arguments))
    ufunc, _, part = name.partition(".")
    result = UFUNCS[ufunc](*arguments)
    return np.asarray(result[int(part)] if part else result)


def defined(name: str, arguments: list[Array]) -> Array:
    """Return where NumPy says what the result is."""
    x, kind = arguments[0], arguments[0].dtype.kind
    everywhere = np.ones(x.shape, bool)
    if kind in "iu":
        if name == "reciprocal":
            return x != 0
        if name in ("power", "left_shift", "right_shift"):
            return np.asarray(arguments[1] >= 0)
    if kind == "c":
        moderate = [np.isfinite(one) & (np.abs(one) < 1e4) for one in arguments]
        if name in COMPLEX_ULPS:
            everywhere = np.logical_and.reduce(moderate)
        if name in ("divide", "reciprocal"):
            everywhere &= arguments[-1] != 0
        if name in ("power", "float_power"):
            everywhere &= (np.abs(x) > 0.1) & (np.abs(arguments[1]) < 8)
    if name in ("spacing", "sign") and x.dtype == BFLOAT16:
        return np.asarray(x != 0)  # ml_dtypes has negative ones for -0, unlike NumPy
    if name == "nextafter" and x.dtype == np.float16:
        return np.asarray((x != 0) | (arguments[1] != 0))  # C's, after 0, is the other zero
    return everywhere


def specials(name: str) -> Array:
    dtype = numpy_dtype(name)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, 7, 8, 16, 31, 32, 63, 64, info.max, info.max - 1, info.min]
        if dtype.kind == "i":
            values += [-1, -2, -3, -7, -63, info.min + 1]
        return np.array([value for value in values if info.min <= value <= info.max], dtype)
    if dtype.kind == "c":
        parts = [0.0, -0.0, 1.0, -1.5, 0.5, INF, -INF, NAN]
        return np.array([complex(*pair) for pair in itertools.product(parts, parts)], dtype)
    limits = ml_dtypes.finfo(dtype)
    sizes = [0, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 100.5, 1e3, INF]
    sizes += [limits.max, limits.tiny, limits.smallest_subnormal, limits.smallest_subnormal * 5]
    return np.array([*sizes, *(-float(size) for size in sizes), NAN]).astype(dtype)


def randoms(name: str, count: int, rng: np.random.Generator) -> Array:
    dtype = numpy_dtype(name)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, count, dtype, endpoint=True)
        return np.where(rng.integers(0, 2, count) == 1, wide, wide % dtype.type(20))
    if dtype.kind == "c":
        return (rng.normal(0, 2, count) + 1j * rng.normal(0, 2, count)).astype(dtype)
    size = 2.0 ** rng.uniform(-12, 8, count)
    return (size * rng.choice([-1, 1], count)).astype(dtype)


@functools.cache
def inputs(signature: Signature) -> list[Array]:
    rng = np.random.default_rng(1)
    chosen = [specials(name) for name in signature]
    if len(signature) > 2:
        chosen = [rng.choice(one, 24 // len(signature)) for one in chosen]
    grids = np.meshgrid(*chosen, indexing="ij")
    return [
        np.concatenate([grid.ravel(), randoms(name, 3000, rng)])
        for name, grid in zip(signature, grids, strict=True)
    ]


def expressions(signature: Signature) -> list[tuple[str, str]]:
    """Return the name and the text of each output."""
    return [
        (name, text)
        for name in GROUPS[signature]
        for text in dict.fromkeys([BUILTINS[name].text, BUILTINS[name].spelling(*signature)])
    ]


@functools.cache
def kernel(signature: Signature) -> kspec.ElementwiseKernel:
    operands = [f"x{k}" for k in range(len(signature))]
    outputs, statements = [], []
    few = [one[:1] for one in inputs(signature)]
    for k, (name, text) in enumerate(expressions(signature)):
        with np.errstate(all="ignore"):
            outputs.append(f"{reference(name, few).dtype.name} y{k}")
        statements.append(f"y{k} = {text.format(*operands)};")
    parameters = ", ".join(f"{one} {name}" for one, name in zip(signature, operands, strict=True))
    return kspec.ElementwiseKernel(
        parameters, ", ".join(outputs), "\n".join(statements), "all_of", return_tuple=True
    )


def ordered(values: Array) -> Array:
    """Return the place of each floating-point number among all of them."""
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    smallest = np.int64(np.iinfo(f"i{values.dtype.itemsize}").min)
    return np.where(bits < 0, smallest - bits, bits)


def different(name: str, actual: Array, expected: Array, arguments: list[Array]) -> Array:
    """Return where a result is further from NumPy's than the tables allow."""
    kind = expected.dtype.kind
    if kind in "biu":
        return np.asarray(actual != expected)
    if kind == "c":
        allowed = COMPLEX_ULPS.get(name, 0)
        if allowed:
            size = np.maximum(np.abs(expected), np.finfo(expected.dtype).tiny)
            far = np.abs(actual - expected) > allowed * np.finfo(expected.dtype).eps * size
            return np.asarray(far | (np.isnan(actual) != np.isnan(expected)))
        parts = [
            different(name, np.ascontiguousarray(a), np.ascontiguousarray(e), [])
            for a, e in ((actual.real, expected.real), (actual.imag, expected.imag))
        ]
        return np.logical_or(*parts)
    both_nan = np.isnan(actual) & np.isnan(expected)
    same_sign = (np.signbit(actual) == np.signbit(expected)) | (name in ANY_ZERO)
    same = both_nan | (actual == expected) & same_sign
    table = COMPLEX_ULPS if arguments and arguments[0].dtype.kind == "c" else ULPS
    allowed = table.get(name, 0)
    if not allowed:
        return np.asarray(~same)
    if expected.dtype.itemsize == 2:
        allowed = min(allowed, SHORT_ULPS)
    if name in ("logaddexp", "logaddexp2"):  # the sum of two numbers may be a small one
        unit = np.spacing(np.maximum(np.abs(expected), np.maximum(*map(np.abs, arguments))))
        return np.asarray(~same & ~(np.abs(actual - expected) <= allowed * unit))
    near = np.abs(ordered(actual) - ordered(expected)) <= allowed
    number = ~np.isnan(actual) & ~np.isnan(expected)
    return np.asarray(~same & ~(near & same_sign & number))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("signature", GROUPS, ids="-".join)
def test_numpy_is_matched(signature: Signature, place: ArrayDevice) -> None:
    arguments = inputs(signature)
    results = kernel(signature)(*map(place.array, arguments))
    faults = []
    for (name, text), result in zip(expressions(signature), results, strict=True):
        where = defined(name, arguments)
        given = [one[where] for one in arguments]
        actual, expected = place.numpy(result)[where], reference(name, given)
        assert actual.dtype == expected.dtype
        wrong = np.flatnonzero(different(name, actual, expected, given))
        faults += [
            f"{text.format(*(repr(one[k]) for one in given))} is {actual[k]!r}, "
            f"NumPy has {expected[k]!r} ({wrong.size} such)"
            for k in wrong[:3]
        ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_functions(dtype: str, place: ArrayDevice) -> None:
    points, values = np.array(list(SPECIAL.values())).T
    body = "\n".join(
        f"if (i == {k}) y = {BUILTINS[name].text.format('x', 'x')};"
        for k, name in enumerate(SPECIAL)
    )
    special = kspec.ElementwiseKernel(f"{dtype} x", f"{dtype} y", body, "special")
    # Given, for what is not written to is kept: elements are read with those beside them.
    results = place.numpy(special(place.array(points, dtype), place.zeros(len(points), dtype)))
    # What the point loses in its dtype is magnified by some of these functions.
    np.testing.assert_allclose(results, values, rtol=20 * np.finfo(dtype).eps)


def test_products_with_zero_and_a_logarithm(place: ArrayDevice) -> None:
    texts = [BUILTINS[name].text.format("x", "y") for name in ("xlogy", "xlog1py", "entr")]
    body = " ".join(f"z{k} = {text};" for k, text in enumerate(texts))
    both = kspec.ElementwiseKernel("T x, T y", "T z0, T z1, T z2", body, "products")
    x, y = place.array([0.0, 0.0, NAN, 2.0, -1.0]), place.array([0.0, NAN, 0.0, 0.0, -1.0])
    results = [place.numpy(one).tolist() for one in both(x, y)]
    np.testing.assert_equal(results[0], [0, NAN, NAN, -INF, NAN])
    np.testing.assert_equal(results[1], [0, NAN, NAN, 0, INF])
    np.testing.assert_equal(results[2], [0, 0, NAN, -2 * np.log(2.0), -INF])


def test_integers_wrap_between_two_functions(place: ArrayDevice) -> None:
    one_more = BUILTINS["add"].spelling("int32", "int32").format("x", "1")
    compared = BUILTINS["greater"].spelling("int32", "int32").format("y", "x")
    body = f"int y = {one_more}; z = {compared};"
    larger = kspec.ElementwiseKernel("int32 x", "bool z", body, "one_more_is_larger")
    x = np.array([0, -5, 2**31 - 1], np.int32)
    assert place.numpy(larger(place.array(x))).tolist() == [True, True, False]


def test_powers_that_numpy_refuses_are_cut_off(place: ArrayDevice) -> None:
    text = BUILTINS["power"].text.format("x", "y")
    power = kspec.ElementwiseKernel("T x, T y", "T z", f"z = {text};", "power")
    x, y = np.array([[1, 1], [-1, -3], [-1, -2], [2, -1], [0, -1]], np.int64).T
    assert place.numpy(power(place.array(x), place.array(y))).tolist() == [1, -1, 1, 0, 0]


def test_every_ufunc_is_there_or_has_a_reason() -> None:
    expected = set()
    for name, ufunc in UFUNCS.items():
        parts = [name] if ufunc.nout == 1 else [f"{name}.{k}" for k in range(ufunc.nout)]
        if name not in UNSUPPORTED:
            expected.update(parts)
            assert all(BUILTINS[part].arity == ufunc.nin for part in parts)
    assert expected | ELSEWHERE.keys() | SPECIAL.keys() == BUILTINS.keys()
    assert UNSUPPORTED.keys() <= UFUNCS.keys()


@pytest.mark.parametrize("name", BUILTINS)
def test_a_row_is_consistent(name: str) -> None:
    row = BUILTINS[name]
    operands = [f"<{k}>" for k in range(row.arity)]
    for text in filter(None, (row.text, row.plain)):
        filled = text.format(*operands)
        assert all(operand in filled for operand in operands)
    assert row.name == name and bool(row.plain) == bool(row.kinds)
    assert bool(row.header) == ("kspec::" in row.text)


@pytest.mark.parametrize("signature", GROUPS, ids="-".join)
def test_nvrtc_compiles_it(signature: Signature) -> None:
    source = LazySource(kernel(signature).spec)(Specialization("all_of", ()))
    assert compiled(source, Target("compute_80")).code


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_nvrtc_compiles_for(arch: str) -> None:
    source = LazySource(kernel(("float32", "int32")).spec)(Specialization("all_of", ()))
    assert compiled(source, Target(arch)).code
