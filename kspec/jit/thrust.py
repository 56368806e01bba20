"""Algorithms that one thread does by itself, by the names of NVIDIA's Thrust.

>>> from kspec import jit
>>> @jit.rawkernel()
... def sort_rows(x):
...     row = x[jit.threadIdx.x]
...     jit.thrust.sort(jit.thrust.seq, row.begin(), row.end())

They are kspec's own (``kspec/sequential.cuh``): they compile with NVRTC and run on the host device.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.ir.nodes import BuiltinCall, Expression, FunctionCall, Let, Name
from kspec.ir.types import BufferType, IteratorType, Type
from kspec.jit import operations, types
from kspec.jit.call_site import CallSite
from kspec.jit.scope import Scope
from kspec.jit.values import Known, Method, TupleValue, Value, convert, describe, kind_of

_HEADER = "kspec/sequential.cuh"

# Arguments and results.  Arguments: i an iterator, e the end of the one before it, o an
# iterator that is written to, v a value of the first iterator's type; optional ones are in small
# print, with their defaults.  Results: the number of an argument, or a type.
_TABLE = """
    adjacent_difference   i e o         2
    binary_search         i e v         bool
    copy                  i e o         2
    count                 i e v         int64
    equal                 i e i         bool
    exclusive_scan        i e o v=0     2
    exclusive_scan_by_key i e i o v=0   3
    fill                  o e v         none
    find                  i e v         0
    gather                i e i o       3
    inclusive_scan        i e o         2
    inclusive_scan_by_key i e i o       3
    inner_product         i e i v       value
    is_sorted             i e           bool
    is_sorted_until       i e           0
    lower_bound           i e v         0
    reduce                i e v=0       value
    remove                o e v         0
    remove_copy           i e o v       2
    replace               o e v v       none
    replace_copy          i e o v v     2
    reverse               o e           none
    reverse_copy          i e o         2
    scatter               i e i o       none
    sequence              o e v=0 v=1   none
    set_difference           i e i e o  4
    set_intersection         i e i e o  4
    set_symmetric_difference i e i e o  4
    set_union                i e i e o  4
    set_difference_by_key           i e i e i i o o  6+7
    set_intersection_by_key         i e i e i o o    5+6
    set_symmetric_difference_by_key i e i e i i o o  6+7
    set_union_by_key                i e i e i i o o  6+7
    sort                  o e           none
    sort_by_key           o e o         none
    stable_sort           o e           none
    stable_sort_by_key    o e o         none
    swap_ranges           o e o         2
    unique                o e           0
    unique_copy           i e o         2
    upper_bound           i e v         0
    mismatch              i e i         0+2+same
    equal_range           i e v         lower_bound,upper_bound
    reduce_by_key         i e i o o     3+4
    unique_by_key         o e o         0+2
"""
_ORDERED = ("sort", "bound", "search", "set_", "equal_range")
_NAMES = tuple(line.split()[0] for line in _TABLE.strip().splitlines())


@dataclass(frozen=True)
class Policy:
    """An execution policy; each of them runs the algorithm in one thread."""

    name: str


@dataclass(frozen=True)
class Algorithm:
    """An algorithm.

    Attributes
    ----------
    name : str
        As users write it behind ``jit.thrust.``.
    params : tuple of str
        Its arguments, as the table has them.
    result : str
        Kind of its result.
    """

    name: str
    params: tuple[str, ...]
    result: str

    def __repr__(self) -> str:
        return f"kspec.jit.thrust.{self.name}"

    def compile_call(self, site: CallSite) -> Value:
        """Return the value of a call of it in a kernel."""
        args = site.args
        if args and isinstance(args[0], Known) and isinstance(args[0].value, Policy):
            args = args[1:]
        least = sum("=" not in one for one in self.params)
        if site.keywords or not least <= len(args) <= len(self.params):
            most = f" to {len(self.params)}" if least < len(self.params) else ""
            raise site.problem(
                TypeError if len(args) < least else NotImplementedError,
                f"jit.thrust.{self.name} takes {least}{most} arguments, no operators",
            )
        site.scope.program.headers.add(_HEADER)
        return self._result(site, self._operands(site, args))

    def _operands(self, site: CallSite, args: Sequence[Value]) -> list[Expression]:
        found: list[Expression] = []
        for k, param in enumerate(self.params):
            value = args[k] if k < len(args) else Known(int(param.partition("=")[2]))
            if param[0] == "v":
                found.append(site.assignable(value, _dtype(found[0])))
                continue
            if not isinstance(value, Expression) or not _is_iterator(value.type):
                raise site.problem(
                    TypeError,
                    f"jit.thrust.{self.name}: argument {k} is {describe(value)}, not an iterator "
                    "such as x.begin()",
                )
            if param[0] == "e" and _place(value.type) != _place(found[-1].type):
                message = f"from {found[-1].type} to {value.type}: not of one array"
                raise site.problem(TypeError, message)
            if param[0] == "o":
                if isinstance(value.type, IteratorType) and not value.type.is_memory:
                    raise site.problem(
                        TypeError,
                        f"jit.thrust.{self.name}: argument {k} is written to, and a {value.type} "
                        "cannot be",
                    )
                site.scope.mark_written(site.node, value)
            found.append(value)
        if any(word in self.name for word in _ORDERED) and types.kind(_dtype(found[0])) == "c":
            raise site.problem(TypeError, f"jit.thrust.{self.name}: complex have no order")
        return found

    def _result(self, site: CallSite, given: list[Expression]) -> Value:
        args, result = tuple(given), self.result
        if "," in result:
            names = result.split(",")
            return TupleValue(tuple(_invoke(one, args, _place(args[0].type)) for one in names))
        if "+" in result:
            # A number of elements, by which two iterators move.
            numbers = [one for one in result.split("+") if one.isdecimal()]
            function = "same" if "same" in result else self.name
            name = site.scope.fresh_name("count")
            site.scope.out.append(Let(name, _invoke(function, args, "int64")))
            count = Name(name, "int64")
            moved = [(args[int(one)], count) for one in numbers]
            return TupleValue(
                tuple(BuiltinCall("add.c", pair, _place(pair[0].type)) for pair in moved)
            )
        kinds: dict[str, Type] = {"none": "", "value": _dtype(args[0])}
        if result.isdecimal():
            return _invoke(self.name, args, _place(args[int(result)].type))
        return _invoke(self.name, args, kinds.get(result, result))


@dataclass(frozen=True)
class FancyIterator:
    """Constructor of an iterator over numbers that are not in memory.

    Attributes
    ----------
    name : str
        As users write it behind ``jit.thrust.``.
    kind : str
        Of the `IteratorType`.
    most : int
        Arguments, at most.
    """

    name: str
    kind: str
    most: int

    def __repr__(self) -> str:
        return f"kspec.jit.thrust.{self.name}"

    def compile_call(self, site: CallSite) -> Value:
        """Return the value of a call of it in a kernel."""
        args = site.args
        if site.keywords or not 1 <= len(args) <= self.most:
            wanted = "1 argument" if self.most == 1 else f"1 to {self.most} arguments"
            raise site.problem(TypeError, f"jit.thrust.{self.name} takes {wanted}")
        site.scope.program.headers.add(_HEADER)
        value = site.scalar(args[0])
        dtype = str(value.type)
        if self.kind == "Counting" and types.kind(dtype) not in "iu":
            message = f"jit.thrust.{self.name}: counts integers, not {dtype}"
            raise site.problem(TypeError, message)
        given = [value]
        if self.most > 1:
            place = args[1] if len(args) > 1 else Known(0)
            given.append(site.assignable(place, "int64"))
        function = f"kspec::make_{self.kind.lower()}"
        return FunctionCall(function, tuple(given), IteratorType(dtype, self.kind))


def _invoke(name: str, args: tuple[Expression, ...], type_: Type) -> FunctionCall:
    return FunctionCall(f"kspec::seq::{name}", args, type_)


def _is_iterator(type_: Type) -> bool:
    is_line = isinstance(type_, BufferType) and (type_.shape is None or len(type_.shape) == 1)
    return isinstance(type_, IteratorType) or is_line


def _place(type_: Type) -> Type:
    """Return the type of a place in memory, wherever that begins and ends."""
    return BufferType(type_.dtype) if isinstance(type_, BufferType) else type_


def _dtype(value: Expression) -> str:
    assert isinstance(value.type, BufferType | IteratorType)
    return value.type.dtype


def begin_or_end(site: CallSite, array: Expression, name: str) -> Expression:
    """Return ``x.begin()`` or ``x.end()``."""
    dtype = getattr(array.type, "dtype", "")
    if getattr(array.type, "ndim", 0) != 1:
        raise site.problem(TypeError, f"{array.type} has no {name}(): it has not one axis")
    site.scope.program.headers |= {"kspec/view.cuh", _HEADER}
    return FunctionCall(f"kspec::{name}_of", (array,), IteratorType(dtype))


def iterator_arithmetic(
    scope: Scope, node: ast.AST, sign: str, left: Value, right: Value
) -> Expression | None:
    """Return an iterator plus or minus a number, or the distance of two; None for other values."""
    first, second = _iterator(left), _iterator(right)
    if first is not None and second is not None:
        if sign != "-" or _place(first.type) != _place(second.type):
            return None
        return BuiltinCall("subtract.c", (first, second), "int64")
    place, number = (first, right) if first is not None else (second, left)
    if place is None or sign not in ("+", "-") or (sign == "-" and first is None):
        return None
    if isinstance(number, TupleValue | Method) or (
        isinstance(number, Known) and not number.is_number
    ):
        return None
    steps = operations.scalar(scope, node, number)
    if kind_of(steps) not in "iu":
        return None
    name = "add.c" if sign == "+" else "subtract.c"
    return BuiltinCall(name, (place, convert(steps, "int64")), _place(place.type))


def _iterator(value: Value) -> Expression | None:
    if not isinstance(value, Expression) or not _is_iterator(value.type):
        return None
    return value


_ALGORITHMS = {
    name: Algorithm(name, tuple(params), result)
    for name, *params, result in map(str.split, _TABLE.strip().splitlines())
}
_FANCY_ITERATORS = {
    one.name: one
    for one in (
        FancyIterator("make_counting_iterator", "Counting", 1),
        FancyIterator("make_constant_iterator", "Constant", 2),
    )
}
seq, host, device = Policy("seq"), Policy("host"), Policy("device")

__all__ = [*_NAMES, *_FANCY_ITERATORS, "device", "host", "seq"]


def __getattr__(name: str) -> Algorithm | FancyIterator:
    found = _ALGORITHMS.get(name) or _FANCY_ITERATORS.get(name)
    if found is not None:
        return found
    raise AttributeError(f"module 'kspec.jit.thrust' has no attribute {name!r}")
