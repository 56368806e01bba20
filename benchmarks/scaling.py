"""Time against the number of GPUs (`kspec.sharded`) and of Dask's workers (`kspec.dask`).

Strong: the same arrays are divided among more of them. Weak: each has as much as one had.  Times
are the host's, from the call until everything has run, beside the same work by hand; arrays hold
halves, so that everybody knows the results.
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import kspec
from benchmarks.cases import is_selected
from benchmarks.machines import Machine
from benchmarks.results import Scaling
from benchmarks.timing import Sample, garbage_collection_off, summarise
from kspec import sharded
from kspec.runtime import driver

COUNTS = (1, 2)
_ROUNDS = 9
_WARM_UP = 0.2  # seconds
_GPU_ELEMENTS = 2**30  # float32: 4 GiB of an array
_HOST_ELEMENTS = 2**27
_CHUNK = 2**23
_MAP, _REDUCE = "x * x + y", "a + b"
ELEMENTWISE = kspec.ElementwiseKernel("T x, T y", "T z", f"z = {_MAP}", "scaling_map")
NORM = kspec.ReductionKernel("T x", "T y", "x * x", _REDUCE, "y = sqrt(a)", "0", "scaling_norm")
SQUARES = ("T x", "T y", "x * x", _REDUCE, "y = a", "0", "scaling_squares")


@dataclass(frozen=True)
class Problem:
    """What is timed: a kernel on arrays that are divided, in a section."""

    section: str
    name: str
    weak: bool = False

    @property
    def label(self) -> str:
        """Section and name, by which it is selected."""
        return f"{self.section}/{self.title}"

    @property
    def title(self) -> str:
        """Its name in tables."""
        return f"{self.name}, {'weak' if self.weak else 'strong'}"

    def row(self, unit: str, nbytes: int, **fields: Any) -> Scaling:
        """Return a row of results."""
        return Scaling(self.section, self.title, unit, nbytes, self.weak, **fields)


PROBLEMS = tuple(
    Problem(section, name, weak)
    for section in ("gpus", "dask")
    for name in ("L2 norm", "elementwise")
    for weak in (False, True)
)


def run(machine: Machine, only: str | None, quick: bool) -> Iterator[Scaling | str]:
    """Yield rows, and lines about what is left out."""
    wanted = [one for one in PROBLEMS if is_selected(one.label, only)]
    of_gpus = [one for one in wanted if one.section == "gpus"]
    of_dask = [one for one in wanted if one.section == "dask"]
    if of_gpus and machine.kind == "cuda":
        count = len(kspec.devices()) - 1
        if count < max(COUNTS):
            yield f"gpus: measured on {count} GPU only, for there are no more"
        for problem in of_gpus:
            yield _on_gpus(machine, problem, [one for one in COUNTS if one <= count], quick)
        machine.free()
    if of_dask:
        yield from _on_workers(of_dask, quick)


# ---- GPUs


def _on_gpus(machine: Machine, problem: Problem, counts: Sequence[int], quick: bool) -> Scaling:
    """Time one problem on more and more GPUs."""
    elements = _GPU_ELEMENTS // (8 if quick else 1)
    is_norm = problem.name == "L2 norm"
    samples: dict[str, Sample] = {}
    nbytes = 4 * elements * (1 if is_norm else 3)
    for count in counts:
        length = elements if problem.weak else elements // count
        places = range(count)
        x = [_filled(machine, place, length) for place in places]
        if is_norm:
            call = functools.partial(sharded.apply, NORM, x)
            by_hand = _norm_by_hand(machine, x)
        else:
            y = [_filled(machine, place, length) for place in places]
            call = functools.partial(sharded.apply, ELEMENTWISE, x, y)
            by_hand = _map_by_hand(machine, x, y)
        result = call()
        if is_norm:
            expected = np.sqrt(0.25 * length * count)
            if abs(float(_numpy(result)) / expected - 1) > 1e-3:
                return problem.row("GPU", nbytes, problem=f"WRONG RESULT on {count}: {result}")
        elif any(abs(float(_numpy(one[-1])) - 0.75) > 1e-6 for one in result):
            return problem.row("GPU", nbytes, problem=f"WRONG RESULT on {count}")
        del result
        samples[f"kspec {count}"] = _timed(call, places)
        if by_hand is not None:
            samples[f"CuPy {count}"] = _timed(by_hand, places)
    return problem.row("GPU", nbytes, samples=samples, peer="CuPy")


def _filled(machine: Machine, place: int, length: int) -> Any:
    """Return an array of halves on a GPU."""
    cupy = machine.peers.get("cupy")
    if cupy is None:
        return kspec.asarray(np.full(length, 0.5, "float32"), device=f"cuda:{place}")
    with cupy.cuda.Device(place):
        return cupy.full(length, 0.5, "float32")


def _numpy(array: Any) -> Any:
    return kspec.asnumpy(array)


def _norm_by_hand(machine: Machine, x: Sequence[Any]) -> Callable[[], Any] | None:
    """Return the norm as one would write it with CuPy."""
    cupy = machine.peers.get("cupy")
    if cupy is None:
        return None
    squares = cupy.ReductionKernel(*SQUARES)

    def norm() -> float:
        sums = []
        for one in x:
            with one.device:
                sums.append(squares(one))
        return float(np.sqrt(sum(float(one.get()) for one in sums)))

    return norm


def _map_by_hand(machine: Machine, x: Sequence[Any], y: Sequence[Any]) -> Callable[[], Any] | None:
    cupy = machine.peers.get("cupy")
    if cupy is None:
        return None
    kernel = cupy.ElementwiseKernel("T x, T y", "T z", f"z = {_MAP}", "scaling_map")

    def call() -> list[Any]:
        results = []
        for one, other in zip(x, y, strict=True):
            with one.device:
                results.append(kernel(one, other))
        return results

    return call


def _timed(call: Callable[[], Any], places: Sequence[int]) -> Sample:
    """Return the times of a call until all GPUs have finished."""
    seconds = []

    def wait() -> None:
        for place in places:
            driver.synchronize(place)

    begin = time.perf_counter()
    while time.perf_counter() < begin + _WARM_UP:  # GPUs that were idle are slow at first
        call()
        wait()
    with garbage_collection_off():
        for _ in range(_ROUNDS):
            wait()
            start = time.perf_counter()
            result = call()
            wait()
            seconds.append(time.perf_counter() - start)
            del result
    return summarise(seconds)


# ---- Dask's workers


def _on_workers(problems: Sequence[Problem], quick: bool) -> Iterator[Scaling | str]:
    """Time problems on clusters of more and more processes, each with one thread."""
    try:
        import dask.array as da
        import distributed
    except ImportError as error:
        yield f"dask is left out: {error}"
        return

    elements = _HOST_ELEMENTS // (8 if quick else 1)
    samples: dict[Problem, dict[str, Sample]] = {problem: {} for problem in problems}
    wrong: dict[Problem, str] = {}
    for count in COUNTS:
        with warnings.catch_warnings(), _environment():
            warnings.simplefilter("ignore")
            local = distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
            )
            with local, distributed.Client(local) as client:
                for problem in problems:
                    length = elements * (count if problem.weak else 1)
                    x = da.full(length, 0.5, dtype="float32", chunks=min(_CHUNK, length // count))
                    arrays = client.persist([x, x + 0])
                    distributed.wait(arrays)
                    calls = _dask_calls(problem, da, *arrays)
                    for who, call in calls.items():
                        found = float(_computed(client, call).ravel()[-1].compute())
                        expected = np.sqrt(0.25 * length) if problem.name == "L2 norm" else 0.75
                        if abs(found / expected - 1) > 1e-3:
                            wrong[problem] = f"WRONG RESULT of {who} on {count}: {found}"
                        times = []
                        for _ in range(3 if quick else _ROUNDS):
                            _forget(local, arrays)
                            start = time.perf_counter()
                            _computed(client, call)
                            times.append(time.perf_counter() - start)
                        samples[problem][f"{who} {count}"] = summarise(times)
                    del arrays, calls
    for problem in problems:
        nbytes = 4 * elements * (1 if problem.name == "L2 norm" else 3)
        yield problem.row(
            "worker",
            nbytes,
            samples={} if problem in wrong else samples[problem],
            peer="Dask",
            problem=wrong.get(problem, ""),
        )


def _dask_calls(problem: Problem, da: Any, x: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """Return what makes the graphs, by kspec and by Dask itself."""
    import kspec.dask

    if problem.name == "L2 norm":
        return {
            "kspec": lambda: kspec.dask.apply(NORM, x),
            "Dask": lambda: da.sqrt((x * x).sum()),
        }
    return {
        "kspec": lambda: kspec.dask.apply(ELEMENTWISE, x, y),
        "Dask": lambda: x * x + y,
    }


def _computed(client: Any, call: Callable[[], Any]) -> Any:
    """Compute on the workers, where the result stays."""
    import distributed

    result = client.persist(call())
    distributed.wait(result)
    return result


def _forget(local: Any, arrays: Sequence[Any]) -> None:
    """Wait until nobody has the result of an equal call, which would be taken instead."""
    kept = sum(array.npartitions for array in arrays)
    end = time.monotonic() + 10
    while len(local.scheduler.tasks) > kept and time.monotonic() < end:
        time.sleep(0.005)


class _environment:
    """What worker processes get: one thread each, of the host device too."""

    _NAMES = ("KSPEC_HOST_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._NAMES}
        os.environ.update(dict.fromkeys(self._NAMES, "1"))

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
