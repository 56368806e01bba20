"""On a GPU: arrays that are dropped before their kernel has run, and streams that run behind.

A kernel that spins holds a stream up, so that what does not wait for it comes too early.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime import driver
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.memory import deferred_release

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

COUNT = 1 << 20
SPINS = 600_000_000  # cycles: a third of a second
WAIT = kspec.RawKernel(
    r"""
extern "C" __global__ void spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}
""",
    "spin",
)
NEXT = kspec.ElementwiseKernel("int32 x", "int32 y", "y = x + 1", "next_of")
ADD = kspec.ElementwiseKernel("int32 x, int32 y", "int32 z", "z = x + y", "add_behind")
TOTAL = kspec.ReductionKernel("int32 x", "int64 y", "x", "a + b", "y = a", "0", "total_behind")


@pytest.fixture(autouse=True)
def _gpu() -> None:
    spin(0, 0)
    driver.synchronize(0)


def spin(stream: Any, cycles: int = SPINS) -> None:
    WAIT((1,), (1,), (cycles,), stream=stream)


class CuPy:
    def __init__(self) -> None:
        self.module = pytest.importorskip("cupy")
        self.side = self.module.cuda.Stream(non_blocking=True)

    def full(self, value: int) -> Any:
        return self.module.full(COUNT, value, "int32")

    def address(self, array: Any) -> int:
        return int(array.data.ptr)


class Torch:
    def __init__(self) -> None:
        self.module = pytest.importorskip("torch")
        self.side = self.module.cuda.Stream()

    def full(self, value: int) -> Any:
        return self.module.full((COUNT,), value, dtype=self.module.int32, device="cuda")

    def address(self, array: Any) -> int:
        return int(array.data_ptr())


@pytest.fixture(params=[CuPy, Torch])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param()


Use = Callable[[Any, Any, Any], Any]
USES: dict[str, Use] = {
    "given": lambda x, z, stream: NEXT(x, z, stream=stream),
    "made": lambda x, z, stream: NEXT(NEXT(x, stream=stream), z, stream=stream),
}


@pytest.mark.parametrize("hot", [0, 6])
@pytest.mark.parametrize("use", USES)
def test_dropped_on_a_stream_of_the_callers(use: str, hot: int, library: Any) -> None:
    """The library would use the memory anew at once: nothing waits on its own stream."""
    z = library.full(0)
    for _ in range(hot):
        x = library.full(0)
        driver.synchronize(0)  # whoever names a stream sees to it that the arrays are there
        USES[use](x, z, library.side)
    driver.synchronize(0)
    x = library.full(1)
    driver.synchronize(0)
    spin(library.side)
    USES[use](x, z, library.side)
    del x
    others = [library.full(7) for _ in range(4)]
    driver.synchronize(0)
    assert (kspec.asnumpy(z) == (2 if use == "given" else 3)).all()
    assert len(others) == 4


def test_what_has_run_is_let_go() -> None:
    cupy = pytest.importorskip("cupy")
    side = cupy.cuda.Stream(non_blocking=True)
    pool = cupy.get_default_memory_pool()
    gc.collect()
    before = pool.used_bytes()
    z = cupy.zeros(COUNT, "int32")
    for _ in range(50):
        x = cupy.full(COUNT, 1, "int32")
        driver.synchronize(0)
        NEXT(x, z, stream=side)
        del x
        side.synchronize()
    NEXT(z, z, stream=side)
    side.synchronize()
    NEXT(z, z, stream=side)
    assert len(deferred_release.deferred_on(0)) <= 2
    assert pool.used_bytes() - before < 10 * 4 * COUNT


def disguised(array: Any) -> Any:
    class Disguised:
        def __dlpack__(self, **keywords: Any) -> object:
            return array.__dlpack__(**keywords)

        def __dlpack_device__(self) -> Any:
            return array.__dlpack_device__()

    return Disguised()


def test_dropped_by_a_library_that_nobody_knows() -> None:
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as theirs:
        x = cupy.full(COUNT, 1, "int32")
        theirs.synchronize()
        spin(0)
        y = NEXT(disguised(x))
        del x
        others = [cupy.full(COUNT, 7, "int32") for _ in range(4)]
    assert (kspec.asnumpy(y) == 2).all() and len(others) == 4


class TestJax:
    @pytest.fixture
    def jnp(self) -> Any:
        jax = pytest.importorskip("jax")
        if not any(one.platform == "gpu" for one in jax.devices()):
            pytest.skip("JAX has no CUDA device")
        return jax.numpy

    def test_dropped_inputs(self, jnp: Any) -> None:
        x = jnp.full(COUNT, 1, "int32").block_until_ready()
        spin(0)
        y = NEXT(x)
        del x
        others = [jnp.full(COUNT, 7, "int32") for _ in range(4)]
        assert (np.asarray(y) == 2).all() and len(others) == 4

    def test_results_are_waited_for(self, jnp: Any) -> None:
        x = jnp.arange(COUNT, dtype="int32").block_until_ready()
        for stream in None, 0:
            spin(0)
            y = NEXT(x, stream=stream)
            z = y * 2  # on JAX's own stream
            assert (np.asarray(z) == 2 * (np.arange(COUNT) + 1)).all()

    @pytest.mark.unsanitized("matrix products, which take the tools minutes")
    def test_inputs_are_waited_for(self, jnp: Any) -> None:
        a = jnp.ones((4096, 4096))
        for _ in range(3):
            x = (a @ a @ a)[0, :8].astype("int32")  # takes a while
            assert (np.asarray(NEXT(x)) == 4096 * 4096 + 1).all()

    def test_results_on_a_stream_of_the_callers(self, jnp: Any) -> None:
        cupy = pytest.importorskip("cupy")
        side = cupy.cuda.Stream(non_blocking=True)
        x = jnp.full(COUNT, 1, "int32").block_until_ready()
        spin(side)
        y = NEXT(x, stream=side)
        assert (np.asarray(y + 1) == 3).all()

    def test_memory_comes_back(self, jnp: Any) -> None:
        x = jnp.full(COUNT, 1, "int32")
        before = kspec.memory_pool("cuda:0").used_bytes()
        for _ in range(20):
            NEXT(x).block_until_ready()
        assert kspec.memory_pool("cuda:0").used_bytes() <= before + 8 * 4 * COUNT


class TestSeveralLibraries:
    """Their current streams differ."""

    @pytest.mark.parametrize("hot", [0, 6])
    def test_the_launch_waits(self, hot: int) -> None:
        cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
        mine = cupy.full(COUNT, 1, "int32")
        theirs = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
        for _ in range(hot):
            ADD(mine, theirs)
        side = torch.cuda.Stream()
        driver.synchronize(0)
        for _ in range(3):
            with torch.cuda.stream(side):
                theirs.zero_()
                spin(side)
                theirs.fill_(3)
                total = ADD(mine, theirs)
            assert isinstance(total, cupy.ndarray)
            assert (kspec.asnumpy(total) == 4).all()

    @pytest.mark.parametrize("hot", [0, 6])
    def test_they_wait_for_it(self, hot: int) -> None:
        cupy, torch = pytest.importorskip("cupy"), pytest.importorskip("torch")
        one = cupy.cuda.Stream(non_blocking=True)
        theirs = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
        with one:
            mine = cupy.full(COUNT, 1, "int32")
            for _ in range(hot):
                ADD(mine, mine, theirs)
            driver.synchronize(0)
            spin(one)
            ADD(mine, mine, theirs)
        copied = theirs.clone()  # on torch's stream
        theirs.fill_(9)
        assert (kspec.asnumpy(copied) == 2).all()
        assert (kspec.asnumpy(theirs) == 9).all()

    def test_own_arrays_are_on_the_default_stream(self) -> None:
        cupy = pytest.importorskip("cupy")
        side = cupy.cuda.Stream(non_blocking=True)
        own = kspec.asarray(np.full(COUNT, 1, "int32"), device="cuda:0")
        with side:
            mine = cupy.full(COUNT, 1, "int32")
            ADD(mine, own)
        driver.synchronize(0)
        spin(0)
        NEXT(own, own)
        with side:
            total = ADD(mine, own)
        assert (kspec.asnumpy(total) == 3).all()


@pytest.mark.threads
def test_threads_with_streams_of_their_own(library: Any) -> None:
    """Each makes arrays, uses and drops them, on streams that nobody waits for."""

    def work(number: int) -> bool:
        side = type(library)().side
        right = True
        for step in range(30):
            x = library.full(number)
            driver_streams.synchronize_stream(0, 0)
            y = NEXT(x, stream=side)
            z = ADD(x, y, stream=side)
            del x, y
            side.synchronize()
            right &= bool((kspec.asnumpy(z) == 2 * number + 1).all())
            if step % 3 == 0:
                right &= int(kspec.asnumpy(TOTAL(z, stream=side))) == COUNT * (2 * number + 1)
        return right

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
