"""Arrays and tuples outside of a kernel, indexed by what only its run knows: constant memory."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kspec import jit
from kspec.errors import JitError
from tests.devices import ArrayDevice

TABLE = np.array([10.0, 20.0, 30.0])
GRID = np.arange(24, dtype="i2").reshape(2, 3, 4)[:, ::2]
WEIGHTS = (0.5, 2, 1.5)
PAIRS = ((1, 2), (3, 4), (5, 6))
LETTERS = ["a", "b"]
LARGE = np.zeros(65537, "i1")
RECORDS = np.array([(1, (2, 3)), (4, (5, 6))], [("x", "f8"), ("v", "i4", 2)])


@jit.rawkernel(device=True)
def element(table, i):
    return table[i] + len(table)


@jit.rawkernel()
def tables(o, k):
    i = k[0]
    o[0] = TABLE[i]
    o[1] = GRID[1, i - 1, 3] + GRID[-1][i - 1][0]
    o[2] = WEIGHTS[i]
    o[3] = PAIRS[i][1] + PAIRS[1][i - 1]
    r = RECORDS[i - 1]
    o[4] = r.x + r.v[i - 1] + RECORDS["x"][i - 1]
    o[5] = element(TABLE, i) + element(GRID[0, 1], i)
    row = PAIRS[i]
    o[6] = row[0]
    for j in range(3):
        o[7] += TABLE[j]


def test_every_kind_of_table(place: ArrayDevice) -> None:
    o = place.zeros(8)
    tables[1, 1](o, place.array([2], "i4"))
    assert place.numpy(o).tolist() == [30, 23 + 20, 1.5, 6 + 4, 4 + 6 + 4, 33 + 14, 5, 60]


ONE = RECORDS[1]


@jit.rawkernel()
def known_records(s, k):
    s[0] = RECORDS[1]
    s[1] = ONE
    s[1].x += ONE.x + RECORDS[0].x + ONE["v"][1]
    r = RECORDS[0] if k else ONE
    s[2].v[0] = r.v[1]


def test_records_at_known_places(place: ArrayDevice) -> None:
    s = place.zeros(3, RECORDS.dtype)
    for k in (0, 1):
        known_records[1, 1](s, k)
        found = place.numpy(s)
        assert found["x"].tolist() == [4, 15, 0]
        assert found["v"].tolist() == [[5, 6], [5, 6], [(6, 3)[k], 0]]


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u2", "i8", "f2", "f4", "F", "D", ">i4", ml_dtypes.bfloat16, "V3"],
    ids=str,
)
def test_every_dtype(place: ArrayDevice, dtype: Any) -> None:
    values = np.array([0, 1, 2]).astype("S3").view("V3") if dtype == "V3" else np.arange(3)
    values = values.astype(dtype)

    @jit.rawkernel()
    def copies(o, k):
        o[0] = values[k]

    o = place.zeros(1, values.dtype.newbyteorder("="))
    for k in range(3):
        copies[1, 1](o, k)
        assert place.numpy(o)[0] == values[k]


def test_types_of_tuples_are_those_of_constants() -> None:
    def kernel(o, k):
        o[0] = WEIGHTS[k]

    for mode, dtype in (("cuda", "float32"), ("numpy", "float64")):
        shown = jit.rawkernel(mode=mode)(kernel).ir(np.zeros(1), 0)
        assert f"constant kspec_table_0: {dtype}[3]" in shown


def test_equal_tables_are_one() -> None:
    again = TABLE.copy()

    @jit.rawkernel()
    def both(o, k):
        o[0] = TABLE[k] + again[k] + WEIGHTS[k]

    assert re.findall(r"constant (\w+)", both.ir(np.zeros(1), 0)) == [
        "kspec_table_0",
        "kspec_table_1",
    ]


def test_changed_contents_are_noticed(place: ArrayDevice) -> None:
    values, numbers = np.array([1.0, 2.0]), [[1, 2], 3]

    @jit.rawkernel()
    def reads(o, k):
        o[0] = values[k] + values[0]
        o[1] = numbers[0][1]

    o = place.zeros(2)
    reads[1, 1](o, 1)
    assert place.numpy(o).tolist() == [3, 2]
    values[0] = 10
    reads[1, 1](o, 1)
    assert place.numpy(o).tolist() == [12, 2]
    numbers[0][1] = 7
    reads[1, 1](o, 1)
    assert place.numpy(o).tolist() == [12, 7]


@jit.rawkernel()
def writes(o, k):
    TABLE[k] = 1


@jit.rawkernel()
def writes_to_a_record(o, k):
    r = RECORDS[k]
    r.x = 1


@jit.rawkernel()
def adds(o, k):
    jit.atomic_add(WIDE[k], 0, 1)


WIDE = np.zeros((2, 2), "i4")


@jit.rawkernel()
def of_variables(o, k):
    pair = (o[0], o[1])
    o[0] = pair[k]


@jit.rawkernel(device=True)
def fill(x):
    x[0] = 1


@jit.rawkernel()
def passes(o, k):
    fill(TABLE)


@jit.rawkernel()
def too_large(o, k):
    o[0] = LARGE[k]


@jit.rawkernel()
def no_numbers(o, k):
    o[0] = LETTERS[k]


@jit.rawkernel()
def masked(o, k):
    o[0] = MASKED[k]


MASKED = np.ma.masked_array([1.0, 2.0], [True, False])


@jit.rawkernel()
def unknown(o, k):
    o[0] = KINDS[k]


KINDS = {0: 1}
READ_ONLY = "constants of a kernel cannot be written to; pass the array as an argument"


@pytest.mark.parametrize(
    ("kernel", "line", "message"),
    [
        (writes, "TABLE[k] = 1", READ_ONLY),
        (writes_to_a_record, "r.x = 1", READ_ONLY),
        (adds, "jit.atomic_add", READ_ONLY),
        (of_variables, "pair[k]", "a tuple of variables is indexed by constants only; use jit.l"),
        (passes, "fill(TABLE)", READ_ONLY),
        (too_large, "LARGE[k]", "has 65537 bytes, and constant memory 65536; pass it as"),
        (no_numbers, "LETTERS[k]", "a str is not a number"),
        (masked, "MASKED[k]", "MaskedArray is indexed by constants only; pass it as an argument"),
        (unknown, "KINDS[k]", "dict is indexed by constants only; pass it as an argument"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_refused(kernel: Any, line: str, message: str) -> None:
    with pytest.raises(JitError) as caught:
        kernel[1, 1](np.zeros(2), 1)
    text = str(caught.value)
    assert message in text
    assert line in text
