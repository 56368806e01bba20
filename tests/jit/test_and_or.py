"""``and`` and ``or`` are one of their operands, as in Python, in both modes."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest

from kspec import jit
from kspec.errors import JitError
from tests.devices import ArrayDevice

MODES = "cuda", "numpy"
STATEMENTS = 80
INPUTS = {"a": "int32", "b": "int64", "c": "float32", "d": "float64", "e": "int8"}
LENGTH = 4


def operand(source: random.Random, depth: int) -> str:
    name, index = source.choice(list(INPUTS)), source.randrange(LENGTH)
    element = f"{name}[{index}]"
    kinds = ["element"] * 3 + ["constant", "comparison", "truth", "sum"] + ["nested"] * depth
    match source.choice(kinds):
        case "element":
            return element
        case "constant":
            return source.choice(["0", "1", "5", "2.5", "0.0", "True", "False"])
        case "comparison":
            return f"({element} > 1)"
        case "truth":
            return f"(not {element})"
        case "sum":
            return f"({element} + {name}[0])"
    return f"({chain(source, depth - 1)})"


def chain(source: random.Random, depth: int) -> str:
    word = source.choice([" and ", " or "])
    return word.join(operand(source, depth) for _ in range(source.randint(2, 4)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))])
def test_drawn_chains_are_what_python_says(place: ArrayDevice, mode: str, seed: int) -> None:
    source = random.Random(seed)
    lines = [f"    o[{k}] = {chain(source, 2)}" for k in range(STATEMENTS)]
    lines += [f"    if {chain(source, 2)}: o[{STATEMENTS + k}] = 1" for k in range(20)]
    text = "\n".join([f"def drawn({', '.join(INPUTS)}, o):", *lines])
    name = f"and_or_{seed}.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"__name__": "drawn"}
    exec(compile(text, name, "exec"), space)
    values = np.random.default_rng(seed).integers(0, 3, (len(INPUTS), LENGTH))
    arrays = [row.astype(dtype) for row, dtype in zip(values, INPUTS.values(), strict=True)]
    wanted = np.zeros(STATEMENTS + 20)
    space["drawn"](*arrays, wanted)
    found = place.zeros(wanted.shape)
    jit.rawkernel(mode=mode)(space["drawn"])[1, 1](*map(place.array, arrays), found)
    wrong = [lines[k] for k in np.flatnonzero(place.numpy(found) != wanted)]
    assert not wrong


def sums_of_booleans(x, out):
    out[0] = (x[0] > 0) + (x[1] > 0)
    out[1] = (x[0] > 0) * (x[1] > 0) + (x[0] > 0)
    out[2] = (x[0] > 0) + 1


@pytest.mark.parametrize("mode", ["cuda", "numpy"])
def test_sums_of_booleans_are_booleans(place: ArrayDevice, mode: str) -> None:
    x, out = np.ones(2), place.zeros(3)
    jit.rawkernel(mode=mode)(sums_of_booleans)[1, 1](place.array(x), out)
    wanted = np.zeros(3)
    sums_of_booleans(x, wanted)
    np.testing.assert_array_equal(place.numpy(out), wanted)


@jit.rawkernel()
def defaults(x, y, o):
    o[0] = x[0] and y[0]
    o[1] = x[0] or y[0]
    n = x[1] or 5
    o[2] = n
    small = y[1] or 300
    o[3] = small
    o[4] = x[1] and jit.atomic_add(o, 5, 1)
    x[0] and jit.atomic_add(o, 6, 1)
    o[7] = jit.atomic_add(o, 7, 2) or 9


def test_numbers(place: ArrayDevice) -> None:
    x, y = place.array([7, 0], "i4"), place.array([3, 0], "i1")
    o = place.zeros(8, "i4")
    defaults[1, 1](x, y, o)
    assert place.numpy(o).tolist() == [3, 7, 5, 300, 0, 0, 1, 9]


@jit.rawkernel()
def signs(x, y, o):
    o[0] = x[0] or y[0]


@jit.rawkernel()
def late(x, o):
    o[0] = x[0] or jit.atomic_add(o, 1, 1) or 5


@jit.rawkernel()
def arrays(x, o):
    y = x or o
    y[0] = 1


@pytest.mark.parametrize(
    ("kernel", "dtypes", "message"),
    [
        (signs, "iIi", "int32 cannot become uint32 by itself; write np.uint32(...)"),
        (late, "ii", "this may not be computed at all: use an if statement"),
        (arrays, "ii", "int32[1d, C] is not a number"),
    ],
)
def test_what_is_refused(kernel: Any, dtypes: str, message: str) -> None:
    with pytest.raises(JitError) as caught:
        kernel[1, 1](*(np.zeros(2, dtype) for dtype in dtypes))
    assert message in str(caught.value)
