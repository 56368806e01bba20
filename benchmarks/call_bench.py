"""Arrays and kernels for the rows of `benchmarks.overhead`, and the calls of a row."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

import kspec
from benchmarks import kernels
from benchmarks.kernels import Text
from benchmarks.machines import Machine, random_numpy
from benchmarks.timing import Call

SIZE = 1000


class NotHereError(Exception):
    """A row that this machine cannot have."""


@dataclass(frozen=True)
class Plan:
    """The calls of a row.

    Attributes
    ----------
    calls : mapping of str to callable
        ``"kspec"`` and its peers.
    check : callable or None
        Returns pairs of arrays that have to be equal once everything ran.
    around : callable
        Returns the context that bursts run in.
    """

    calls: Mapping[str, Call]
    check: Callable[[], Iterable[tuple[Any, Any]]] | None = None
    around: Callable[[], AbstractContextManager[object]] = nullcontext


class Bench:
    """Arrays and kernels for the rows.

    Parameters
    ----------
    machine : Machine
        Where.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.cupy = machine.peers.get("cupy")
        self.torch = machine.peers.get("torch")
        self._seeds = itertools.count()
        self._kernels: dict[tuple[str, str], Any] = {}

    def array(self, *shape: int) -> Any:
        """Return random float32, of the library that is native to the machine."""
        flat = self.machine.random("float32", int(np.prod(shape)), next(self._seeds))
        return flat.reshape(shape)

    def arrays(self, count: int) -> list[Any]:
        """Return several of 1000 elements."""
        return [self.array(SIZE) for _ in range(count)]

    def own(self, count: int) -> list[Any]:
        """Return several of kspec's own arrays."""
        return [
            kspec.asarray(random_numpy("float32", SIZE, seed), device=self.machine.kind)
            for seed in range(count)
        ]

    def tensors(self, count: int) -> list[Any]:
        """Return several tensors of torch."""
        if self.torch is None:
            raise NotHereError("no torch")
        place = "cuda" if self.machine.kind == "cuda" else "cpu"
        return [self.torch.rand(SIZE, device=place) for _ in range(count)]

    def kernel(self, text: Text, module: Any = kspec) -> Any:
        """Return the kernel of a text, made once for each library."""
        key = module.__name__, text.name
        if key not in self._kernels:
            self._kernels[key] = text.build(module)
        return self._kernels[key]

    def numpy(self, array: Any) -> Any:
        """Return a NumPy copy."""
        self.machine.finish()
        if self.cupy is not None and isinstance(array, self.cupy.ndarray):
            return self.cupy.asnumpy(array)
        if self.torch is not None and isinstance(array, self.torch.Tensor):
            return array.cpu().numpy()
        return kspec.asnumpy(array)

    def calls(self, text: Text, arguments: tuple[Any, ...], **keywords: Any) -> dict[str, Call]:
        """Return the call of kspec, and CuPy's with the same arguments."""
        calls: dict[str, Call] = {
            "kspec": functools.partial(self.kernel(text), *arguments, **keywords)
        }
        if self.cupy is not None:
            calls["CuPy"] = functools.partial(self.kernel(text, self.cupy), *arguments, **keywords)
        return calls

    def with_cupy(self, calls: Mapping[str, Call], given: bool) -> dict[str, Call]:
        """Return calls that add two arrays, and CuPy's with its own, for comparison."""
        if self.cupy is None:
            return dict(calls)
        kernel = self.kernel(kernels.ADD_F32, self.cupy)
        return {**calls, "CuPy": functools.partial(kernel, *self.arrays(3 if given else 2))}

    def same(self, call: Call, want: Callable[[], Any]) -> Callable[[], list[tuple[Any, Any]]]:
        """Return the check of a call that returns one array."""
        return lambda: [(self.numpy(call()), want())]
