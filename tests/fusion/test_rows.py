"""Rows kept in registers against one kernel for each step: both are NumPy's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kspec import ArgumentTypeError, fuse
from kspec.fusion.call.row_sizes import NO_CLUSTERS, WITH_CLUSTERS, Limits, row_sizes
from kspec.fusion.call.rows import RowCaller
from kspec.fusion.rows import RowProgram
from kspec.model.stages import CudaSource, Target
from kspec.runtime import driver
from tests.compiling import compiled
from tests.devices import ArrayDevice

RANDOM = np.random.default_rng(3)
START = RANDOM.bit_generator.state
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _numbers() -> None:
    """Let each test draw the same numbers, whichever tests ran before it."""
    RANDOM.bit_generator.state = START


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1) * weight + bias


def rms_norm(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1) * weight


def several(x: Any, y: Any) -> Any:
    away = x - y.mean(-1, keepdims=True)
    return away, (away * y).sum(-1), away.max(-1, keepdims=True), x.sum(-1) * 2


def scaled(x: Any, per_row: Any, s: Any) -> Any:
    return (x * per_row - (x * per_row).sum(-1, keepdims=True)) * s


def in_place(x: Any) -> None:
    x -= x.mean(-1, keepdims=True)
    x /= np.sqrt((x * x).mean(-1, keepdims=True) + 1)


def in_place_of_two(x: Any, y: Any) -> Any:
    x += y.sum(-1, keepdims=True)
    y -= x.max(-1, keepdims=True)
    return x * 2


def last_two(x: Any) -> Any:
    return x - x.mean((-2, -1), keepdims=True)


def whole_numbers(x: Any) -> Any:
    return x - x.min(-1, keepdims=True), (x - x.max(-1, keepdims=True)).sum(-1)


def call(
    function: Function,
    args: tuple[Any, ...],
    place: ArrayDevice,
    monkeypatch: pytest.MonkeyPatch,
    launches: list[str],
    by_rows: bool = True,
) -> None:
    """Compare both ways with NumPy, arguments included; `by_rows`: whether one kernel will do."""
    plain = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
    with np.errstate(all="ignore"):
        wanted = function(*plain)
    for mode in ("always", "never"):
        monkeypatch.setenv("KSPEC_FUSE_ROWS", mode)
        given = [place.array(one) if isinstance(one, np.ndarray) else one for one in args]
        before = len(launches)
        got = fuse(device="host")(function)(*given)
        count = len(launches) - before
        assert count == 1 if mode == "always" and by_rows else count > 1
        for one, other in zip(_tuple(got), _tuple(wanted), strict=True):
            agree(one, other, place, args)
        for one, other in zip(given, plain, strict=True):
            if isinstance(other, np.ndarray):
                agree(one, other, place, args)


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else () if result is None else (result,)


def agree(got: Any, wanted: Any, place: ArrayDevice, args: tuple[Any, ...] = ()) -> None:
    """Compare as closely as the coarsest of the result's and the arguments' types allows."""
    found = place.numpy(got)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "i":
        np.testing.assert_array_equal(found, wanted)
        return
    bounds = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-12}
    arrays = (one for one in (wanted, *args) if isinstance(one, np.ndarray))
    bound = max(bounds.get(one.dtype.name, 0) for one in arrays)
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


def normal(*shape: int, dtype: str = "f4") -> Any:
    return RANDOM.normal(size=shape).astype(dtype)


@pytest.mark.parametrize(
    ("length", "dtype"),
    [
        *((length, "f4") for length in (1, 2, 7, 31, 64, 129, 1000, 1024)),
        *((7, "f8"), (31, "f2"), (1024, "f2")),
    ],
)
def test_lengths(
    place: ArrayDevice,
    length: int,
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
    launches: list[str],
) -> None:
    call(softmax, (normal(3, length, dtype=dtype),), place, monkeypatch, launches)


@pytest.mark.parametrize("length", [4096, 5000, 16384, 32768])
def test_long_rows(
    place: ArrayDevice, length: int, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    call(rms_norm, (normal(2, length), normal(length)), place, monkeypatch, launches)


def residual_norm(x: Any, y: Any, weight: Any, per_row: Any) -> Any:
    x += y * per_row
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1) * weight, x.max(-1)


def has_clusters(place: ArrayDevice) -> bool:
    return not place.is_host and driver.compute_capability(0) >= (9, 0)


# Longer than a block keeps: blocks of a cluster share a row, and take one after the other.
# NumPy adds float16 up in float16: the squares of small numbers only.
def small(*shape: int, dtype: str) -> Any:
    return (RANDOM.normal(size=shape) / 16).astype(dtype)


VERY_LONG: dict[str, Callable[[int, int, str], tuple[Function, tuple[Any, ...]]]] = {
    "softmax": lambda rows, n, dtype: (softmax, (small(rows, n, dtype=dtype),)),
    "rms norm": lambda rows, n, dtype: (
        rms_norm, (small(rows, n, dtype=dtype), normal(n, dtype=dtype))),
    "layer norm": lambda rows, n, dtype: (
        layer_norm, (small(rows, n, dtype=dtype), normal(n), normal(n, dtype=dtype))),
    "two arrays, in place": lambda rows, n, dtype: (
        residual_norm,
        (small(rows, n, dtype=dtype), normal(rows, n), normal(n), normal(rows, 1))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("length", [33000, 65536, 100_008, 262_144])
@pytest.mark.parametrize("name", VERY_LONG)
def test_rows_of_several_blocks(
    place: ArrayDevice,
    name: str,
    length: int,
    rows: int,
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
    launches: list[str],
) -> None:
    if place.is_host and (rows > 1 or length > 65536 or dtype == "f8"):
        pytest.skip("the host device has no clusters")
    rows = min(rows, 2**24 // length)  # each cluster takes several, at the most
    function, args = VERY_LONG[name](rows, length, dtype)
    sizes = [one.itemsize for one in args if one.shape[-1] > 1]
    fits = row_sizes(length, 16 // max(sizes), sum(sizes), WITH_CLUSTERS) is not None
    assert fits or length > 131_072, "only the longest rows of many arrays or bytes do not fit"
    call(function, args, place, monkeypatch, launches, by_rows=has_clusters(place) and fits)


def moments(x: Any) -> Any:
    return x.mean(-1), x.var(-1), x.std(-1, ddof=1)


@pytest.mark.parametrize("length", [2, 24, 1000, 5000])
def test_moments(
    place: ArrayDevice, length: int, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    """One kernel either way: rows are read once and need no division for each element."""
    x = normal(3, length) + np.float32(100)
    for mode in ("always", "never"):
        monkeypatch.setenv("KSPEC_FUSE_ROWS", mode)
        launches.clear()
        got = fuse(device="host")(moments)(place.array(x))
        assert len(launches) == 1
        assert ("kspec" in launches[0]) == (mode == "never")  # of a schedule of reductions
        for one, other in zip(got, moments(x), strict=True):
            agree(one, other, place)


def test_moments_are_frozen_for_any_length() -> None:
    (spec,) = fuse(device="host")(moments).to_spec(normal(3, 24))
    assert spec.kind == "reduction"


def test_explain_says_what_fits() -> None:
    x = normal(3, 24)
    assert "1 kernel on GPUs" in fuse(softmax).explain(x)
    assert "1 kernel on GPUs of compute capability 9.0" in fuse(softmax).explain(normal(64, 65536))
    assert "on GPUs" not in fuse(softmax).explain(normal(64, 32801))
    assert "on GPUs" not in fuse(softmax).explain(normal(2, 16384)), "too few rows"


def test_options(place: ArrayDevice) -> None:
    x, options = normal(3, 24), ("--use_fast_math",)
    for function in (softmax, lambda x: 2 * x, lambda x: x.sum(-1)):
        fused = fuse(device="host", options=options)(function)
        assert [one.options for one in fused.to_spec(x)] == [options]
        agree(fused(place.array(x)), function(x), place)
    with pytest.raises(ArgumentTypeError, match="options must be a tuple, not str"):
        fuse(options="--use_fast_math")  # type: ignore[call-overload]


def test_rows_that_are_too_long(
    place: ArrayDevice, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    call(softmax, (normal(2, 32801),), place, monkeypatch, launches, by_rows=False)


def test_only_narrow_results_are_computed_quickly() -> None:
    """Integers and truths, too, may depend on the last digit of a quotient."""

    def bins(x: Any) -> Any:
        shares = x / x.sum(-1, keepdims=True)
        return np.floor(shares * 10).astype("i4"), shares > 0.5

    def code(function: Function, dtype: str) -> str:
        return row_program_of(function, np.ones((64, 64), dtype)).code

    assert "Reciprocal" not in code(bins, "f4") + code(bins, "f2") + code(softmax, "f4")
    assert "kspec::Reciprocal" in code(softmax, "f2") and "quick_exp" in code(softmax, "f2")


CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "layer norm": (layer_norm, (normal(5, 24), normal(24), normal(24))),
    "layer norm of three axes": (layer_norm, (normal(3, 4, 24), normal(1, 1, 24), normal(24))),
    "layer norm of float16": (
        layer_norm,
        (normal(4, 40, dtype="f2"), *[normal(40, dtype="f2")] * 2),
    ),
    "mixed types": (layer_norm, (normal(4, 40, dtype="f2"), normal(40), normal(40, dtype="f8"))),
    "several outputs": (several, (normal(6, 33), normal(6, 33))),
    "per row": (scaled, (normal(6, 33), normal(6, 1), 2.0)),
    "per row of three axes": (scaled, (normal(2, 3, 9), normal(2, 3, 1), 3)),
    "in place": (in_place, (normal(6, 33),)),
    "two axes make a row": (last_two, (normal(5, 4, 6),)),
    "int8": (whole_numbers, (RANDOM.integers(-60, 60, (6, 33)).astype("i1"),)),
    "int64": (whole_numbers, (RANDOM.integers(-60, 60, (6, 32)),)),
    "one row": (several, (normal(1, 33), normal(1, 33))),
    "square": (several, (normal(8, 8), normal(8, 8))),
    "many rows": (softmax, (normal(300, 5),)),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(
    place: ArrayDevice, name: str, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    function, args = CASES[name]
    call(function, args, place, monkeypatch, launches)


def test_in_place_of_two(
    place: ArrayDevice, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    call(in_place_of_two, (normal(6, 8), normal(6, 8)), place, monkeypatch, launches)


# Numbers of rows that meet the elements of other rows, as NumPy has it, are no row program.
CROSSED: dict[str, Function] = {
    "sums as a row": lambda x: x - x.sum(-1),
    "sums and themselves": lambda x: x.sum(-1) + x.sum(-1, keepdims=True) + x,
    "written and read across": lambda x: (x.sum(-1) * 2, x - x.max(-1)),
}


@pytest.mark.parametrize("name", CROSSED)
def test_rows_that_meet_others(
    place: ArrayDevice, name: str, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    call(CROSSED[name], (normal(8, 8),), place, monkeypatch, launches, by_rows=False)


# A row program reads what reductions leave where they left it.
LOOKED_AT: dict[str, Function] = {
    "transposed and subtracted": lambda x: x - x.sum(-1).T[..., None],
    "a transposed variance": lambda x: x.var(-1).T,
    "a transposed second sum": lambda x: (x - x.max(-1, keepdims=True)).sum(-1).T,
    "reversed": lambda x: x - x.sum(-1)[::-1, :, None],
    "of other extents": lambda x: x - x.mean(-1).reshape(9)[::-1].reshape(3, 3, 1),
    "repeated": lambda x: (
        np.expand_dims(np.flip(np.broadcast_to(np.ptp(x), (2,))), -1),
        (x.max().reshape(1) - x)[:, None],
    ),
}


@pytest.mark.parametrize("name", LOOKED_AT)
@pytest.mark.parametrize("mode", ["always", "never"])
def test_views_of_reductions(place: ArrayDevice, name: str, mode: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("KSPEC_FUSE_ROWS", mode)
    x = normal(3, 3, 16)
    wanted = LOOKED_AT[name](x)
    for one, other in zip(
        _tuple(fuse(device="host")(LOOKED_AT[name])(place.array(x))), _tuple(wanted), strict=True
    ):
        agree(one, other, place)


# Arguments may be called what the text of a row program calls something itself.
WORDS = [
    ("row", "rows", "length", "lanes", "k", "j", "r_0", "kept0"),
    ("kept0_of_row", "out0", "out0_of_pack", "max0_0", "sum1_0", "acc0_0", "t1_0", "r1_0"),
    ("x_data", "x_step", "x_given", "x_of_row", "PACKS", "THREADS", "V", "NULL"),
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_names_of_arguments(
    place: ArrayDevice, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    names: dict[str, Any] = {"np": np}
    text = (
        "    e = np.exp(x * {0} + {1} - (x * {2}).max(-1, keepdims=True))\n"
        "    x = e / (e * {3} * {3}).sum(-1, keepdims=True) * {0} + {1} * {2} - {3}\n"
    )
    halves = text.format(*words[:4]) + text.format(*words[4:])
    exec(f"def scaled(x, {', '.join(words)}):\n{halves}    return x", names)
    given = (normal(4, 8), normal(8), normal(4, 1), 2.5)
    args = (normal(4, 8), *given, *given[2:], *given[:2])
    call(names["scaled"], args, place, monkeypatch, launches)


@pytest.mark.parametrize("last", ["var", "sum", "max"])
def test_elements_that_are_done_before_the_last_reduction(
    place: ArrayDevice, last: str, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    def function(x: Any) -> Any:
        away = x - x.sum(-1, keepdims=True)
        return away, getattr(away, last)(-1)

    call(function, (normal(8, 6),), place, monkeypatch, launches)


def test_empty_rows(place: ArrayDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_FUSE_ROWS", "always")
    fused = fuse(device="host")(lambda y: y - y.sum(axis=-1, keepdims=True))
    y = place.zeros((3, 0), "float32")
    assert fused(y).shape == (3, 0)
    assert "1 kernel" in str(fused.explain(y))
    assert [one.kind for one in fused.to_spec(y)] == ["reduction", "elementwise"]


def column_and_rows(x: Any, v: Any) -> Any:
    return x - x.sum(-1, keepdims=True), v * 2


def test_a_row_of_its_own_is_returned(
    place: ArrayDevice, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    call(column_and_rows, (normal(8, 6), normal(6)), place, monkeypatch, launches, by_rows=False)


def written_and_read_as_a_row(x: Any, v: Any) -> None:
    x -= x.mean(-1, keepdims=True) * v
    v *= 2


def test_a_row_that_is_read_by_all_and_written(
    place: ArrayDevice, monkeypatch: pytest.MonkeyPatch, launches: list[str]
) -> None:
    args = normal(8, 6), normal(6)
    call(written_and_read_as_a_row, args, place, monkeypatch, launches, by_rows=False)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x[:, 1:],
        lambda x: x[:, 1:-2],
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[:, ::2],
        lambda x: x[:, ::-1],
        lambda x: x.T,
        lambda x: x[1:3, 4:8],
    ],
)
@pytest.mark.parametrize("mode", ["always", "never"])
def test_views(place: ArrayDevice, look: Function, mode: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("KSPEC_FUSE_ROWS", mode)
    x, weight = normal(24, 24), normal(48)
    part = look(x)
    width = part.shape[-1]
    got = fuse(device="host")(rms_norm)(look(place.array(x)), place.array(weight)[3 : 3 + width])
    agree(got, rms_norm(part, weight[3 : 3 + width]), place)
    rows = fuse(device="host")(several)(look(place.array(x)), look(place.array(x)))
    for one, other in zip(rows, several(part, part), strict=True):
        agree(one, other, place)


# Every row program compiles for every architecture, as `kspec.fusion.call.rows` may choose its sizes


def row_program_of(function: Function, *args: Any) -> RowProgram:
    runnable = fuse(device="host")(function)._runnable(args)
    rows = runnable.program.rows
    assert isinstance(runnable._rows, RowCaller)
    assert rows is not None
    return rows


def sizes(program: RowProgram, limits: Limits) -> set[tuple[int, ...]]:
    """Return the arguments of a program's template for rows of any length."""
    width, found = 16 // program.widest, set()
    for length in (2**k for k in range(19)):
        for one in {1, width} if length % width == 0 else {1}:
            found.add(row_sizes(length, one, program.kept, limits))
    return {one.template for one in found if one is not None}


COMPILED: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "softmax": (softmax, (normal(2, 8),)),
    "layer_norm": (layer_norm, (normal(2, 8, dtype="f2"), *[normal(8, dtype="f2")] * 2)),
    "in_place": (in_place, (normal(2, 8, dtype="f8"),)),
    "whole_numbers": (whole_numbers, (np.ones((2, 8), "i1"),)),
}


@pytest.mark.parametrize("arch", ["compute_80", "compute_90", "compute_100", "compute_120"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiles(name: str, arch: str) -> None:
    function, args = COMPILED[name]
    program = row_program_of(function, *args)
    limits = NO_CLUSTERS if arch == "compute_80" else WITH_CLUSTERS
    arguments = sorted(sizes(program, limits))
    assert any(one[-1] > 0 for one in arguments) == (arch != "compute_80"), (
        "several blocks for a row"
    )
    wanted = tuple(f"{program.name}<{', '.join(map(str, one))}>" for one in arguments)
    assert len(wanted) > 3
    source = CudaSource(f"{program.name}.cu", program.code, name_expressions=wanted)
    image = compiled(source, Target(arch))
    assert set(image.symbols) == set(wanted)
    assert image.log == ""
