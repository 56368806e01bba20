"""Indexing in, elements and parts out: ``x[i, j]``, rows, slices, fields, tuples.

An index that is known to be negative counts from the end, others do not: they are not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kspec.ir.nodes import BuiltinCall, Const, Element, Expression, Extent, Slice, Subarray
from kspec.ir.types import ArrayType, BufferType
from kspec.jit import operations, tables, types
from kspec.jit.scope import Scope
from kspec.jit.syntax import attributes
from kspec.jit.values import (
    Known,
    Method,
    TupleValue,
    Value,
    describe,
    unwrapped,
    wrapped,
)
from kspec.model import dtypes

Index = Value | Slice


def subscript(scope: Scope, node: ast.Subscript) -> Value:
    """Return the value of an index expression."""
    owner = scope.evaluate(node.value)
    if isinstance(owner, Known) and hasattr(owner.value, "__getitem__"):
        return _of_known(scope, node, owner)
    if isinstance(owner, TupleValue):
        return _of_tuple(scope, node, owner)
    if isinstance(owner, Known | Method):
        raise scope.problem(node, TypeError, f"{describe(owner)} has no elements")
    row = dtypes.lookup(owner.type) if isinstance(owner.type, str) else None
    if row is not None and row.fields:
        return _field(scope, node, owner, row)
    if not isinstance(owner.type, ArrayType | BufferType):
        raise scope.problem(node, TypeError, f"{owner.type} has no elements")
    return index_memory(scope, node, owner, _indices(scope, node.slice))


def index_memory(scope: Scope, node: ast.AST, owner: Expression, indices: Sequence[Index]) -> Value:
    """Return an element of memory, or a part of it."""
    type_ = owner.type
    assert isinstance(type_, ArrayType | BufferType)
    ndim = type_.ndim if isinstance(type_, ArrayType) else len(type_.shape or (0,))
    if len(indices) > ndim:
        raise scope.problem(
            node, IndexError, f"{len(indices)} indices for {type_}, which has {ndim} axes"
        )
    places: list[Expression | Slice] = [
        one if isinstance(one, Slice) else _integer(scope, node, owner, axis, one)
        for axis, one in enumerate(indices)
    ]
    numbers = [one for one in places if not isinstance(one, Slice)]
    if len(numbers) == ndim:
        return Element(owner, tuple(numbers), type_.dtype)
    if not places:
        return owner
    if isinstance(type_, BufferType):
        if len(numbers) < len(places):
            raise scope.problem(node, TypeError, f"slices of {type_}: only arrays have them")
        return Subarray(
            owner, tuple(places), BufferType(type_.dtype, (type_.shape or ())[len(places) :])
        )
    return Subarray(owner, tuple(places), _part_type(type_, places))


def _part_type(type_: ArrayType, places: Sequence[Expression | Slice]) -> ArrayType:
    """Return the type of a part: contiguous if it leaves out all but the last axes."""
    rows = [not isinstance(one, Slice) for one in places]
    leading = sum(rows)
    slices = [one for one in places if isinstance(one, Slice)]
    first_only = not slices or (
        len(slices) == 1 and not rows[-1] and all(rows[:-1]) and slices[0].step is None
    )
    return ArrayType(type_.dtype, type_.ndim - leading, type_.contiguous and first_only, type_.wide)


def _indices(scope: Scope, node: ast.expr) -> list[Index]:
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    found: list[Index] = []
    for item in items:
        if isinstance(item, ast.Slice):
            found.append(_slice(scope, item))
            continue
        value = scope.evaluate(item)
        found += value.items if isinstance(value, TupleValue) else [value]
    return found


def _slice(scope: Scope, node: ast.Slice) -> Slice:
    ends: list[Expression | None] = []
    for one in (node.lower, node.upper, node.step):
        value = None if one is None else scope.evaluate(one)
        if one is None or value is None or (isinstance(value, Known) and value.value is None):
            ends.append(None)
        else:
            ends.append(_whole(scope, one, value))
    start, stop, step = ends
    if isinstance(step, Const) and step.value == 0:
        raise scope.problem(node, ValueError, "the step of a slice cannot be 0")
    if isinstance(step, Const) and step.value == 1:
        step = None
    return Slice(start, stop, step)


def _whole(scope: Scope, node: ast.AST, value: Value) -> Expression:
    """Return an integer."""
    one = operations.as_expression(scope, node, value)
    if not isinstance(one.type, str) or types.kind(one.type) not in "iu":
        raise scope.problem(node, TypeError, f"an index must be an integer, not {one.type}")
    return one


def _integer(scope: Scope, node: ast.AST, owner: Expression, axis: int, value: Index) -> Expression:
    """Return the index of an axis; known negative ones count from its end."""
    assert not isinstance(value, Slice)
    if not isinstance(value, Known):
        return _whole(scope, node, value)
    one = _whole(scope, node, value)
    assert isinstance(one, Const)
    place = int(one.value.real)
    type_ = owner.type
    extent = None
    if isinstance(type_, BufferType):
        extent = type_.shape[axis] if type_.shape is not None else None
        if extent is None and place < 0:
            raise scope.problem(
                node,
                IndexError,
                f"index {place} counts from the end, and the length of a {type_} is not known",
            )
    if extent is not None:
        if not -extent <= place < extent:
            raise scope.problem(node, IndexError, f"index {place} of {extent} elements")
        return Const(place % extent, "int32")
    if place >= 0:
        return one
    end = Extent(owner, "shape", axis)
    return BuiltinCall("subtract.c", (end, Const(-place, "int64")), "int64")


def _of_known(scope: Scope, node: ast.Subscript, owner: Known) -> Value:
    indices = _indices(scope, node.slice)
    known = [None if isinstance(one, Slice) else unwrapped(one) for one in indices]
    found = tuple(one.value for one in known if one is not None)
    if len(found) < len(indices):
        return index_memory(scope, node, tables.table_of(scope, node, owner), indices)
    is_one = len(found) == 1 and not isinstance(node.slice, ast.Tuple)
    with scope.at(node):
        return wrapped(owner.value[found[0] if is_one else found])


def _of_tuple(scope: Scope, node: ast.Subscript, owner: TupleValue) -> Value:
    if isinstance(node.slice, ast.Slice):
        ends = []
        for one in (node.slice.lower, node.slice.upper, node.slice.step):
            value = Known(None) if one is None else scope.evaluate(one)
            if not isinstance(value, Known):
                raise scope.problem(node, TypeError, "a tuple is indexed by constants only")
            ends.append(value.value)
        with scope.at(node):
            return TupleValue(owner.items[slice(*ends)])
    index, known = scope.evaluate(node.slice), unwrapped(owner)
    if isinstance(index, Known):
        with scope.at(node):
            found: Value = owner.items[index.value]
        return found
    if known is None:
        message = "a tuple of variables is indexed by constants only; use jit.local_array"
        raise scope.problem(node, TypeError, message)
    return index_memory(scope, node, tables.table_of(scope, node, known), [index])


def _field(scope: Scope, node: ast.Subscript, owner: Expression, row: dtypes.DType) -> Value:
    index = scope.evaluate(node.slice)
    name = index.value if isinstance(index, Known) else None
    for field in row.fields:
        if field.name == name:
            return attributes.member(scope, owner, field)
    known = ", ".join(repr(field.name) for field in row.fields)
    raise scope.problem(node, IndexError, f"a record is indexed by the name of a field: {known}")
