"""Collective algorithms of a warp or a block, by the names of NVIDIA's CUB.

>>> from kspec import jit
>>> BlockReduce = jit.cub.BlockReduce[np.float32, 128]
>>> @jit.rawkernel()
... def total(x, y):
...     storage = jit.shared_memory(BlockReduce.TempStorage, 1)
...     sum = BlockReduce(storage[0]).Sum(x[jit.threadIdx.x])
...     if jit.threadIdx.x == 0:
...         y[0] = sum

The algorithms are kspec's own (``kspec/cooperative.cuh``): they compile with NVRTC, run on the host
device too, and take any size of block.  An operator is one of `Sum`, `Max` and `Min`, or a device
function of two values.  16-bit floats are computed in float32, and rounded once.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.ir.nodes import Const, Element, Expression, FieldAccess, FunctionCall, Name
from kspec.ir.types import BufferType, ObjectType
from kspec.jit import operations, types
from kspec.jit.call_site import CallSite
from kspec.jit.syntax.local_functions import LocalFunction
from kspec.jit.values import Known, Value, constant, convert, describe
from kspec.model import dtypes

__all__ = ["BlockReduce", "BlockScan", "Max", "Min", "Sum", "WarpReduce"]

_HEADER = "kspec/cooperative.cuh"
_FUNCTOR = ObjectType("operator")


class BinaryOperator:
    """A function of two values.

    Attributes
    ----------
    name : str
        As users write it behind ``jit.cub.``.
    functor : str
        Its class in C++.
    """

    def __init__(self, name: str, functor: str) -> None:
        self.name = name
        self.functor = functor

    def __repr__(self) -> str:
        return f"kspec.jit.cub.{self.name}"

    def compile_call(self, site: CallSite) -> Value:
        """Return the operator itself: CUB has objects of classes."""
        if site.args or site.keywords:
            raise site.problem(TypeError, f"{self!r} takes no arguments")
        return Known(self)


Sum = BinaryOperator("Sum", "kspec::Plus")
Max = BinaryOperator("Max", "kspec::Larger")
Min = BinaryOperator("Min", "kspec::Smaller")


@dataclass(frozen=True)
class Storage:
    """The shared memory that an algorithm needs: a dtype of ``jit.shared_memory``."""

    storage_dtype: str


@dataclass(frozen=True)
class Collective:
    """An algorithm on values of a type.

    Attributes
    ----------
    name : str
        ``WarpReduce``, ``BlockReduce`` or ``BlockScan``.
    dtype : str
        Of the values.
    """

    name: str
    dtype: str

    @property
    def working(self) -> str:
        """Its type in computations: CuPy's kernels have a float for each float16."""
        return "float32" if self.dtype in ("float16", "bfloat16") else self.dtype

    @property
    def TempStorage(self) -> Storage:
        """The type of its shared memory."""
        return Storage(dtypes.canonical_name(f"{{slots: {self.working}[32]}}"))

    def compile_call(self, site: CallSite) -> Value:
        """Return the algorithm with its memory."""
        wanted = self.TempStorage.storage_dtype
        if len(site.args) != 1 or site.keywords:
            raise site.problem(TypeError, f"{self.name} takes its storage")
        storage = site.args[0]
        if not isinstance(storage, Element) or storage.type != wanted:
            raise site.problem(
                TypeError,
                f"{self.name} takes an element of jit.shared_memory({self.name}.TempStorage, 1), "
                f"not {describe(storage)}",
            )
        return Known(CollectiveInstance(self, storage))


@dataclass(frozen=True)
class CollectiveInstance:
    """An algorithm with its memory."""

    algorithm: Collective
    storage: Element

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS[self.algorithm.name]:
            return BoundMethod(self, name)
        raise AttributeError(f"{self.algorithm.name} has no method {name!r}")


@dataclass(frozen=True)
class BoundMethod:
    """A method of an algorithm."""

    instance: CollectiveInstance
    name: str

    def compile_call(self, site: CallSite) -> Value:
        """Return the result of the method."""
        algorithm = self.instance.algorithm
        function, words = _METHODS[algorithm.name][self.name]
        if site.keywords or len(site.args) != len(words):
            message = f"{algorithm.name}.{self.name} takes {', '.join(words)}"
            raise site.problem(TypeError, message)
        given = dict(zip(words, site.args, strict=True))
        dtype, working = algorithm.dtype, algorithm.working
        value = _exact(site, given["value"], dtype)
        slots = FieldAccess(self.instance.storage, "slots", BufferType(working, (32,)))
        operands: list[Expression] = [slots, convert(value, working)]
        if function == "block_exclusive_scan":
            initial = site.assignable(given.get("initial", Known(0)), dtype)
            operands.append(convert(initial, working))
        operands.append(_operator(site, given.get("op", Known(Sum)), working))
        site.scope.program.headers.add(_HEADER)
        return convert(FunctionCall(f"kspec::{function}", tuple(operands), working), dtype)


def _exact(site: CallSite, value: Value, dtype: str) -> Expression:
    if isinstance(value, Known) and value.is_number:
        with site.scope.at(site.node):
            return constant(value.value, dtype, site.scope.mode)
    one = operations.as_expression(site.scope, site.node, value)
    if one.type != dtype:
        raise site.problem(TypeError, f"this is of {dtype}, not {one.type}")
    return one


def _operator(site: CallSite, op: Value, dtype: str) -> Expression:
    """Return the C++ function for two values."""
    value = op.value if isinstance(op, Known) else None
    if isinstance(value, BinaryOperator):
        return FunctionCall(value.functor, (), _FUNCTOR)
    is_plain = isinstance(value, FunctionType | LocalFunction)
    python = value if is_plain else getattr(value, "device_function", None)
    if python is None:
        message = "an operator is jit.cub.Sum(), Max(), Min(), or a device function"
        raise site.problem(TypeError, message)
    zero = Const(0, dtype)
    made = site.scope.call_device(site.node, python, (zero, zero), {})
    assert isinstance(made, FunctionCall)
    if len(made.args) > 2:
        message = "an operator reads its two arguments alone, no variables around it"
        raise site.problem(TypeError, message)
    if made.type != dtype:
        raise site.problem(TypeError, f"the operator returns {made.type}, not {dtype}")
    return Name(made.function, _FUNCTOR)


class Template:
    """A class of CUB, which is indexed by the type of its values, and the size of the block.

    Attributes
    ----------
    name : str
        As users write it.
    """

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"kspec.jit.cub.{self.name}"

    def __getitem__(self, key: Any) -> Collective:
        """Return the algorithm for values of a type."""
        dtype, *dims = key if isinstance(key, tuple) else (key,)
        wanted = 0 if self.name == "WarpReduce" else 1
        if len(dims) < wanted or not all(isinstance(one, int | np.integer) for one in dims):
            raise TypeError(f"write {self.name}[dtype{', threads' * wanted}]")
        return Collective(self.name, types.dtype_name(dtype))


WarpReduce = Template("WarpReduce", "Reductions of the values of a warp.")
BlockReduce = Template("BlockReduce", "Reductions of the values of a block.")
BlockScan = Template("BlockScan", "Prefix sums of the values of a block.")

# The function of the header, and the arguments.
_METHODS: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "WarpReduce": {
        "Sum": ("warp_reduce", ("value",)),
        "Reduce": ("warp_reduce", ("value", "op")),
    },
    "BlockReduce": {
        "Sum": ("block_reduce", ("value",)),
        "Reduce": ("block_reduce", ("value", "op")),
    },
    "BlockScan": {
        "InclusiveSum": ("block_inclusive_scan", ("value",)),
        "InclusiveScan": ("block_inclusive_scan", ("value", "op")),
        "ExclusiveSum": ("block_exclusive_scan", ("value",)),
        "ExclusiveScan": ("block_exclusive_scan", ("value", "initial", "op")),
    },
}
