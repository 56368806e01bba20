"""Scans that are long enough for blocks that stay, on a GPU."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kspec
from tests.forms.kernels import MODELS, SUM, WEIGHTED
from tests.forms.test_scan import ways

pytestmark = pytest.mark.gpu
LONG = 2**24 + 12_345  # elements: several waves of any device of today

cupy = pytest.importorskip("cupy")


def bits(*shape: int, dtype: str = "float32") -> Any:
    """Return zeros and ones, whose sums are exact."""
    rng = cupy.random.default_rng(3)
    return rng.integers(0, 2, shape).astype(dtype)


def scanned(x: Any, exclusive: bool = False, reverse: bool = False) -> Any:
    """Return the cumulative sums of rows, by CuPy."""
    order = (..., slice(None, None, -1 if reverse else 1))
    sums = cupy.cumsum(x[order], axis=-1, dtype=x.dtype)[order]
    return sums - x if exclusive else sums


@ways
@pytest.mark.parametrize(
    "shape", [(LONG,), (LONG // 1000, 1000), (LONG // 33, 33), (3, LONG // 3), (5, 3 * 2**20 + 1)]
)
def test_rows(shape: tuple[int, ...], way: dict[str, bool]) -> None:
    x = bits(*shape)
    assert bool((SUM.scan(x, **way) == scanned(x, **way)).all())


@ways
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float64"])
def test_dtypes_and_views(dtype: str, way: dict[str, bool]) -> None:
    x = bits(LONG, dtype=dtype)
    for part in (x, x[1:], x[3:-2]):  # aligned or not
        wanted = scanned(part, **way)
        assert bool((SUM.scan(part, **way) == wanted).all())
        out = cupy.zeros(LONG + 8, dtype)
        SUM.scan(part, out=out[2 : 2 + part.size], **way)
        assert bool((out[2 : 2 + part.size] == wanted).all())
        assert not out[:2].any() and not out[2 + part.size :].any()
        copied = x.copy()
        same = copied[x.size - part.size :]
        same[:] = part
        SUM.scan(same, out=same, **way)
        assert bool((same == wanted).all())


@ways
@pytest.mark.parametrize("name", ["mean", "two", "argmax", "hash"])
def test_every_accumulator(name: str, way: dict[str, bool]) -> None:
    model = MODELS[name]
    inputs = model.draw(LONG // 2000, 1000)
    found = model.kernel.scan(*map(cupy.asarray, inputs), **way)
    outputs = found if isinstance(found, tuple) else (found,)
    model.check(tuple(map(cupy.asnumpy, outputs)), model.scan(inputs, **way))


@ways
@pytest.mark.parametrize("name", ["mean", "two", "argmax", "hash"])
def test_long_rows_of_every_accumulator(name: str, way: dict[str, bool]) -> None:
    """The blocks of another layout scan what is not contiguous."""
    model = MODELS[name]
    inputs = [cupy.asarray(one) for one in model.draw(LONG // 2)]
    apart = [cupy.repeat(one, 2)[::2] for one in inputs]
    found, wanted = model.kernel.scan(*inputs, **way), model.kernel.scan(*apart, **way)
    outputs = [one if isinstance(one, tuple) else (one,) for one in (found, wanted)]
    model.check(*(tuple(map(cupy.asnumpy, one)) for one in outputs))


def test_numbers_for_arrays() -> None:
    x = bits(LONG // 2)  # three times as much is exact, too
    assert bool((WEIGHTED.scan(x, np.float32(3)) == 3 * cupy.cumsum(x)).all())
    assert bool((WEIGHTED.scan(2.0, x) == 2 * cupy.cumsum(x)).all())


def test_equal_calls_give_equal_bits() -> None:
    x = cupy.random.default_rng(1).random(LONG, dtype="float32")
    first = SUM.scan(x)
    for _ in range(20):
        assert bool((SUM.scan(x) == first).all())
    np.testing.assert_allclose(cupy.asnumpy(first[-1]), float(x.sum(dtype="f8")), rtol=1e-5)


def test_captured_scans() -> None:
    x, y = bits(LONG), cupy.empty(LONG, "float32")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        SUM.scan(x, out=y)  # compiles, which is not captured
        stream.synchronize()
        stream.begin_capture()
        SUM.scan(x, out=y)
        SUM.scan(y, out=y)
        graph = stream.end_capture()
        for _ in range(3):
            y[:] = 0
            graph.launch(stream)
        stream.synchronize()
    assert bool((y == cupy.cumsum(cupy.cumsum(x))).all()) or float(y[-1]) > 2**24


def test_streams_and_threads_wait_for_no_blocks_of_others() -> None:
    """Blocks of several scans share the multiprocessors: each scan has all of its own, or none."""
    x = bits(LONG)
    wanted = cupy.cumsum(x)
    cupy.cuda.Device().synchronize()
    wrong: list[int] = []

    def scan(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True, priority=-(number % 2)) as stream:
            for _ in range(25):
                found = SUM.scan(x)
            stream.synchronize()
            if not bool((found == wanted).all()):
                wrong.append(number)

    threads = [threading.Thread(target=scan, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
        assert not one.is_alive()
    assert not wrong


def test_on_kspecs_own_arrays() -> None:
    x = kspec.asarray(np.ones(LONG, "int32"), device="cuda")
    np.testing.assert_array_equal(kspec.asnumpy(SUM.scan(x)), np.arange(1, LONG + 1))
