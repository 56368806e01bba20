"""Algorithms of one thread, against NumPy's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kspec import jit
from kspec.errors import JitError
from tests.devices import ArrayDevice

seq = jit.thrust.seq


@jit.rawkernel()
def orders(x, y, z, keys, n):
    jit.thrust.sort(seq, x.begin(), x.end())
    jit.thrust.stable_sort(seq, y.begin() + 1, y.end() - 1)
    jit.thrust.stable_sort_by_key(seq, keys.begin(), keys.end(), y.begin())
    n[0] = jit.thrust.is_sorted(x.begin(), x.end())
    n[1] = jit.thrust.lower_bound(seq, x.begin(), x.end(), 3) - x.begin()
    n[2] = jit.thrust.upper_bound(seq, x.begin(), x.end(), 3) - x.begin()
    n[3] = jit.thrust.binary_search(seq, x.begin(), x.end(), 3)
    low, high = jit.thrust.equal_range(x.begin(), x.end(), 4)
    n[4] = high - low
    n[5] = jit.thrust.is_sorted_until(keys.begin(), keys.end()) - keys.begin()
    jit.thrust.reverse(x.begin(), x.end())
    jit.thrust.sort_by_key(x.begin(), x.end(), z.begin())
    n[6] = jit.thrust.unique_copy(x.begin(), x.end(), z.begin()) - z.begin()
    _, b = jit.thrust.unique_by_key(keys.begin(), keys.end(), y.begin())
    n[7] = b - y.begin()


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_orders(place: ArrayDevice, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x0, y0 = rng.integers(0, 9, (2, 50)).astype(dtype)
    k0 = rng.integers(0, 3, 50).astype(np.int8)
    x, y, keys = place.array(np.repeat(x0, 2))[::2], place.array(y0), place.array(k0)
    z, n = place.zeros(50, dtype), place.zeros(8, np.int64)
    orders[1, 1](x, y, z, keys, n)
    x0.sort()
    y0[1:-1].sort()
    order = np.argsort(k0, kind="stable")
    assert np.array_equal(place.numpy(x), x0)
    first = np.flatnonzero(np.diff(k0[order], prepend=-1))
    assert np.array_equal(place.numpy(y)[:3], y0[order][first])
    assert place.numpy(keys)[:3].tolist() == [0, 1, 2]
    assert np.array_equal(place.numpy(z)[: len(np.unique(x0))], np.unique(x0))
    low, high = np.searchsorted(x0, 3, "left"), np.searchsorted(x0, 3, "right")
    assert place.numpy(n).tolist() == [
        1,
        low,
        high,
        high > low,
        np.sum(x0 == 4),
        50,
        len(np.unique(x0)),
        3,
    ]


@jit.rawkernel()
def sums(x, y, out, n):
    jit.thrust.inclusive_scan(seq, x.begin(), x.end(), out[0].begin())
    jit.thrust.exclusive_scan(seq, x.begin(), x.end(), out[1].begin(), 5)
    jit.thrust.adjacent_difference(seq, x.begin(), x.end(), out[2].begin())
    jit.thrust.inclusive_scan_by_key(seq, y.begin(), y.end(), x.begin(), out[3].begin())
    jit.thrust.exclusive_scan_by_key(seq, y.begin(), y.end(), x.begin(), out[4].begin())
    n[0] = jit.thrust.reduce(seq, x.begin(), x.end())
    n[1] = jit.thrust.reduce(seq, x.begin(), x.end(), 7)
    n[2] = jit.thrust.inner_product(seq, x.begin(), x.end(), x.begin(), 1)
    n[3] = jit.thrust.count(seq, x.begin(), x.end(), 2)
    n[4] = jit.thrust.find(seq, x.begin(), x.end(), 2) - x.begin()
    n[5] = jit.thrust.equal(seq, x.begin(), x.end(), y.begin())
    a, b = jit.thrust.mismatch(seq, x.begin(), x.end(), y.begin())
    n[6] = (a - x.begin()) + (b - y.begin())
    k, _ = jit.thrust.reduce_by_key(y.begin(), y.end(), x.begin(), out[5].begin(), out[6].begin())
    n[7] = k - out[5].begin()


def test_sums(place: ArrayDevice) -> None:
    x0 = np.array([1, 5, 2, 4, 2, 8], np.int64)
    y0 = np.array([1, 1, 2, 2, 2, 3], np.int64)
    out, n = place.zeros((7, 6), np.int64), place.zeros(8, np.int64)
    sums[1, 1](place.array(x0), place.array(y0), out, n)
    assert place.numpy(out).tolist() == [
        np.cumsum(x0).tolist(),
        [5, 6, 11, 13, 17, 19],
        [1, 4, -3, 2, -2, 6],
        [1, 6, 2, 6, 8, 8],
        [0, 1, 0, 2, 6, 0],
        [1, 2, 3, 0, 0, 0],
        [6, 8, 8, 0, 0, 0],
    ]
    assert place.numpy(n).tolist() == [22, 29, 1 + int(x0 @ x0), 2, 2, 0, 2, 3]


@jit.rawkernel()
def changes(x, y, out, n):
    t = out[0].begin()
    jit.thrust.copy(seq, x.begin(), x.end(), t)
    n[0] = jit.thrust.unique(seq, t, out[0].end()) - t
    n[1] = jit.thrust.remove_copy(x.begin(), x.end(), out[1].begin(), 2) - out[1].begin()
    jit.thrust.replace_copy(x.begin(), x.end(), out[2].begin(), 2, 9)
    jit.thrust.reverse_copy(x.begin(), x.end(), out[3].begin())
    jit.thrust.reverse(out[3].begin(), out[3].begin() + 2)
    jit.thrust.sequence(out[4].begin(), out[4].end(), 10, 3)
    jit.thrust.gather(y.begin(), y.end(), x.begin(), out[5].begin())
    jit.thrust.scatter(x.begin(), x.end(), y.begin(), out[6].begin())
    jit.thrust.fill(out[7].begin(), out[7].end(), 4)
    jit.thrust.swap_ranges(out[7].begin(), out[7].begin() + 2, out[4].begin())
    local = jit.local_array(np.int64, 4)
    jit.thrust.fill(local, local + 4, 6)
    jit.thrust.replace(local + 1, local + 2, 6, 1)
    n[2] = jit.thrust.remove(local, local + 4, 1) - local


def test_changes(place: ArrayDevice) -> None:
    x0 = np.array([1, 2, 2, 3, 3, 2], np.int64)
    y0 = np.array([5, 3, 1, 0, 2, 4], np.int64)
    out, n = place.zeros((8, 6), np.int64), place.zeros(3, np.int64)
    changes[1, 1](place.array(x0), place.array(y0), out, n)
    found = place.numpy(out).tolist()
    assert found[0][:4] == [1, 2, 3, 2] and found[1][:3] == [1, 3, 3]
    assert found[2] == [1, 9, 9, 3, 3, 9] and found[3] == [3, 2, 3, 2, 2, 1]
    assert found[4] == [4, 4, 16, 19, 22, 25] and found[7] == [10, 13, 4, 4, 4, 4]
    scattered = np.zeros(6, int)
    scattered[y0] = x0
    assert found[5] == x0[y0].tolist() and found[6] == scattered.tolist()
    assert place.numpy(n).tolist() == [4, 3, 3]


@jit.rawkernel()
def sets(x, y, out, n):
    n[0] = (
        jit.thrust.set_union(x.begin(), x.end(), y.begin(), y.end(), out[0].begin())
        - out[0].begin()
    )
    jit.thrust.set_intersection(x.begin(), x.end(), y.begin(), y.end(), out[1].begin())
    jit.thrust.set_difference(x.begin(), x.end(), y.begin(), y.end(), out[2].begin())
    jit.thrust.set_symmetric_difference(x.begin(), x.end(), y.begin(), y.end(), out[3].begin())


def test_sets(place: ArrayDevice) -> None:
    x0, y0 = [1, 2, 2, 5, 7], [2, 3, 5, 5]
    x, y = place.array(x0, np.float32), place.array(y0, np.float32)
    out, n = place.zeros((4, 9), np.float32), place.zeros(1, np.int64)
    sets[1, 1](x, y, out, n)
    a, b = Counter(x0), Counter(y0)
    wanted = [a | b, a & b, a - b, (a - b) + (b - a)]
    for row, counter in zip(place.numpy(out), wanted, strict=True):
        expected = sorted(counter.elements())
        assert row[: len(expected)].tolist() == expected
    assert place.numpy(n)[0] == len(list((a | b).elements()))


@jit.rawkernel()
def sets_by_key(x, y, p, q, keys, values, n):
    t = jit.thrust
    a, b = t.set_union_by_key(
        seq, x.begin(), x.end(), y.begin(), y.end(), p.begin(), q.begin(),
        keys[0].begin(), values[0].begin(),
    )  # fmt: skip
    n[0] = a - keys[0].begin()
    n[1] = b - values[0].begin()
    a, b = t.set_intersection_by_key(
        seq, x.begin(), x.end(), y.begin(), y.end(), p.begin(), keys[1].begin(), values[1].begin()
    )
    n[2] = b - values[1].begin()
    t.set_difference_by_key(
        x.begin(), x.end(), y.begin(), y.end(), p.begin(), q.begin(),
        keys[2].begin(), values[2].begin(),
    )  # fmt: skip
    t.set_symmetric_difference_by_key(
        x.begin(), x.end(), y.begin(), y.end(), p.begin(), q.begin(),
        keys[3].begin(), values[3].begin(),
    )  # fmt: skip


def test_sets_by_key(place: ArrayDevice) -> None:
    x, y = place.array([1, 2, 2, 5, 7], np.int32), place.array([2, 3, 5, 5], np.int32)
    p = place.array([10, 20, 21, 50, 70], np.float64)
    q = place.array([-20, -30, -50, -51], np.float64)
    keys, values = place.zeros((4, 9), np.int32), place.zeros((4, 9), np.float64)
    n = place.zeros(3, np.int64)
    sets_by_key[1, 1](x, y, p, q, keys, values, n)
    wanted = [
        ([1, 2, 2, 3, 5, 5, 7], [10, 20, 21, -30, 50, -51, 70]),
        ([2, 5], [20, 50]),
        ([1, 2, 7], [10, 21, 70]),
        ([1, 2, 3, 5, 7], [10, 21, -30, -51, 70]),
    ]
    for row, (some_keys, some_values) in enumerate(wanted):
        count = len(some_keys)
        assert place.numpy(keys)[row, :count].tolist() == some_keys
        assert place.numpy(values)[row].tolist() == [*some_values, *[0] * (9 - count)]
    assert place.numpy(n).tolist() == [7, 7, 2]


@jit.rawkernel()
def numbers(x, out, n):
    t = jit.thrust
    first = t.make_counting_iterator(n)
    t.copy(seq, first, first + 4, out[0].begin())
    same = t.make_constant_iterator(x[1])
    t.copy(same, same + 3, out[1].begin())
    n_of_them = t.make_constant_iterator(2.5, 7) - t.make_constant_iterator(2.5)
    out[2, 0] = t.reduce(first, first + 4)
    out[2, 1] = t.lower_bound(first, first + 100, n + 30) - first
    out[2, 2] = t.inner_product(x.begin(), x.end(), first, 0)
    out[2, 3] = n_of_them
    t.gather(t.make_counting_iterator(1), t.make_counting_iterator(3), x.begin(), out[3].begin())


def test_numbers_that_are_nowhere(place: ArrayDevice) -> None:
    x, out = place.array([3, 5, 8], np.int32), place.zeros((4, 4), np.int32)
    numbers[1, 1](x, out, np.int32(10))
    assert place.numpy(out).tolist() == [
        [10, 11, 12, 13],
        [5, 5, 5, 0],
        [46, 30, 3 * 10 + 5 * 11 + 8 * 12, 7],
        [5, 8, 0, 0],
    ]


def test_numbers_can_not_be_written_to() -> None:
    @jit.rawkernel()
    def wrong(x):
        first = jit.thrust.make_counting_iterator(3)
        jit.thrust.sort(first, first + 3)
        jit.thrust.copy(x.begin(), x.end(), jit.thrust.make_constant_iterator(1.5))
        jit.thrust.make_counting_iterator(1.5)
        jit.thrust.make_counting_iterator()

    with pytest.raises(JitError) as caught:
        wrong[1, 1](np.zeros(3))
    text = str(caught.value)
    assert "argument 0 is written to, and a counting iterator of int32 cannot be" in text
    assert "argument 2 is written to, and a constant iterator of float32 cannot be" in text
    assert "counts integers, not float32" in text
    assert "make_counting_iterator takes 1 argument" in text


def test_mistakes() -> None:
    @jit.rawkernel()
    def wrong(x, y):
        jit.thrust.sort(x, x)
        jit.thrust.sort(x.begin())
        jit.thrust.sort(seq, x.begin(), y.end())
        jit.thrust.sort(x.begin(), x.end(), jit.cub.Sum())

    with pytest.raises(JitError) as caught:
        wrong[1, 1](np.zeros(3), np.zeros(3, np.int32))
    text = str(caught.value)
    assert "argument 0 is float64[1d, C], not an iterator such as x.begin()" in text
    assert "takes 2 arguments" in text
    assert "from iterator of float64 to iterator of int32" in text
    assert len(caught.value.diagnostics) == 4
