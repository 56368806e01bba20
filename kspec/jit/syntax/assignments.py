"""Assignments in, variables and stores out: the first one decides what a variable is.

A variable that is first assigned in a branch or a loop is declared at the top of the function, so
that it is known behind it too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kspec.ir.control import Declare, KernelStatement, Reference, Store
from kspec.ir.nodes import Assign, Element, Expression, FieldAccess, Name
from kspec.ir.types import ArrayType, BufferType, is_record
from kspec.jit import operations, types
from kspec.jit.scope import Scope, Stop, cpp_name, root_names
from kspec.jit.syntax import expressions
from kspec.jit.syntax.local_functions import assigned_names
from kspec.jit.values import (
    Known,
    Method,
    TupleValue,
    Value,
    constant,
    convert,
    describe,
    is_record_in_memory,
    without_fields,
)
from kspec.model import dtypes


def build_assign(scope: Scope, node: ast.Assign) -> None:
    """Add ``a = b = value``."""
    value = expressions.evaluate(scope, node.value)
    if len(node.targets) > 1 or not _are_new(scope, node.targets[0]):
        value = operations.evaluate_once(scope, value, always=True)
    for target in node.targets:
        assign(scope, target, value, node.value)


def _are_new(scope: Scope, target: ast.expr) -> bool:
    """Return whether an assignment to a tuple cannot change what it has still to read."""
    if isinstance(target, ast.Tuple | ast.List):
        return all(isinstance(one, ast.Name) and _are_new(scope, one) for one in target.elts)
    return not isinstance(target, ast.Name) or target.id not in scope.variables


def build_annotated(scope: Scope, node: ast.AnnAssign) -> None:
    """Add ``a: type = value``, or a variable without a value yet."""
    dtype = annotated_type(scope, node.annotation)
    if not isinstance(node.target, ast.Name):
        raise scope.problem(node.target, ValueError, "only names have annotations in kernels")
    name = node.target.id
    known = scope.variables.get(name)
    if dtype is None:
        if node.value is None:
            message = "this is not a dtype; write one, as in a: np.float32"
            raise scope.problem(node.annotation, TypeError, message)
        assign(scope, node.target, expressions.evaluate(scope, node.value), node.value)
        return
    if isinstance(known, Name) and known.type != dtype:
        raise scope.problem(node, TypeError, f"{name} is {known.type} already")
    value: Expression | None = None
    if node.value is not None:
        found = expressions.evaluate(scope, node.value)
        if is_record_in_memory(found):
            operations.assignable(scope, node.value, found, dtype)
            assign(scope, node.target, found, node.value)
            return
        if isinstance(found, Known) and not found.is_number:
            raise scope.problem(
                node.value, TypeError, f"{describe(found)} is not a number of {dtype}"
            )
        if isinstance(found, Known):
            with scope.at(node.value):
                value = constant(found.value, dtype, "numpy")  # exactly, as it says its type
        else:
            value = operations.assignable(scope, node.value, found, dtype)
    if isinstance(known, Name):
        if value is not None:
            scope.out.append(Assign(known, value))
        return
    _declare(scope, name, dtype, value)


def annotated_type(scope: Scope, node: ast.expr | None) -> str | None:
    """Return the dtype that an annotation says; None if it says something else."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if dtypes.is_known(node.value):
            return node.value
        try:
            node = ast.copy_location(ast.parse(node.value, mode="eval").body, node)
            ast.fix_missing_locations(node)
        except SyntaxError:
            return None
    count = len(scope.program.problems)
    try:
        value = expressions.evaluate(scope, node)
    except Stop:
        del scope.program.problems[count:]  # types of arrays are for readers
        return None
    if not isinstance(value, Known):
        return None
    try:
        return types.dtype_name(value.value) if value.value is not None else None
    except TypeError:
        return None


def assign(scope: Scope, target: ast.expr, value: Value, node: ast.AST) -> None:
    """Add one assignment to any target; `node` is what the value was written as."""
    if isinstance(target, ast.Name):
        _assign_name(scope, target, value, node)
    elif isinstance(target, ast.Tuple | ast.List):
        _assign_tuple(scope, target, value)
    elif isinstance(target, ast.Subscript | ast.Attribute):
        _store(scope, target, value, node)
    else:
        raise scope.problem(target, ValueError, "Not supported in kernels: this target")


def _assign_tuple(scope: Scope, target: ast.Tuple | ast.List, value: Value) -> None:
    if isinstance(value, Known) and isinstance(value.value, tuple):
        value = TupleValue(tuple(map(Known, value.value)))
    if not isinstance(value, TupleValue):
        raise scope.problem(target, TypeError, f"{describe(value)} is not a tuple")
    if len(value.items) != len(target.elts):
        more = "too many" if len(value.items) > len(target.elts) else "not enough"
        raise scope.problem(
            target,
            ValueError,
            f"{more} values to unpack: {len(target.elts)} names, {len(value.items)} values",
        )
    for one, item in zip(target.elts, value.items, strict=True):
        assign(scope, one, item, target)


def _assign_name(scope: Scope, target: ast.Name, value: Value, node: ast.AST) -> None:
    name = target.id
    known = scope.variables.get(name)
    if isinstance(known, TupleValue) or (known is None and isinstance(value, TupleValue)):
        _assign_several(scope, target, known, value)
        return
    if isinstance(known, Known | Method):
        same = isinstance(value, Known) and not value.is_number
        if scope.depth == 0 and not isinstance(value, TupleValue):
            known = None  # what was known meant something else before
        elif not same:
            raise scope.problem(target, TypeError, f"{name} was {describe(known)} before")
    if (isinstance(value, Known) and not value.is_number) or isinstance(value, Method):
        if scope.depth or isinstance(known, Name):
            raise scope.problem(
                target, TypeError, f"{describe(value)} is given a name at the top level only"
            )
        scope.variables[name] = value
        return
    if isinstance(known, Name):
        _reassign(scope, node, known, value)
        return
    one = _held(scope, node, value)
    if isinstance(one, Name) and one.name in scope.reserved and _is_assigned_once(scope, name):
        scope.variables[name] = one
        return
    _declare(scope, name, one.type, one)


def _held(scope: Scope, node: ast.AST, value: Value) -> Expression:
    """Return a value as variables hold it; refuse a second name of a copy of a record."""
    one = operations.held(scope, node, value)
    if is_record_in_memory(value) and scope.memory_of(root_names(one)) & scope.copies:
        message = "two names cannot share a copy of a record; write .copy() for another one"
        raise scope.problem(node, TypeError, message)
    return one


def _is_assigned_once(scope: Scope, name: str) -> bool:
    found = [
        one
        for one in ast.walk(scope.captured.node)
        if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store)
    ]
    return len(found) == 1


def _assign_several(scope: Scope, target: ast.Name, known: Value | None, value: Value) -> None:
    """Give a tuple a name: each item is a variable."""
    if not isinstance(value, TupleValue):
        raise scope.problem(target, TypeError, f"{target.id} is a tuple already")
    old = known.items if isinstance(known, TupleValue) else (None,) * len(value.items)
    if len(old) != len(value.items):
        raise scope.problem(
            target, TypeError, f"{target.id} has {len(old)} items, and here {len(value.items)}"
        )
    fixed = operations.evaluate_once(scope, value, always=True)
    assert isinstance(fixed, TupleValue)
    items: list[Value] = []
    for k, (before, item) in enumerate(zip(old, fixed.items, strict=True)):
        if isinstance(before, Name):
            _reassign(scope, target, before, item)
            items.append(before)
        elif (isinstance(item, Known) and not item.is_number) or isinstance(
            item, TupleValue | Method
        ):
            items.append(item)
        elif before is None:
            value_ = _held(scope, target, item)
            items.append(_declare(scope, f"{target.id}_{k}", value_.type, value_, keep=False))
        else:
            raise scope.problem(target, TypeError, f"{target.id}[{k}] was {describe(before)}")
    scope.variables[target.id] = TupleValue(tuple(items))


def _reassign(scope: Scope, target: ast.AST, known: Name, value: Value) -> None:
    if is_record(known.type) and is_record_in_memory(value):
        message = f"{known} is a copy of a record: give it another .copy(), or use another name"
        raise scope.problem(target, TypeError, message)
    if isinstance(known.type, str):
        scope.out.append(Assign(known, operations.assignable(scope, target, value, known.type)))
        return
    one = _held(scope, target, value)
    if one.type != known.type:
        raise scope.problem(target, TypeError, f"this is {known.type} already, not {one.type}")
    scope.alias(known.name, one)
    scope.out.append(Assign(known, one))


def _declare(
    scope: Scope,
    name: str,
    type_: object,
    value: Expression | None,
    keep: bool = True,
) -> Name:
    """Make a variable; return it."""
    cname = cpp_name(name) if keep else scope.fresh_name(cpp_name(name))
    variable = Name(cname, type_)  # type: ignore[arg-type]
    if value is not None:
        scope.alias(cname, value)
    if is_record(variable.type):
        scope.copies.add(cname)
    if scope.depth:
        scope.hoisted.append(Declare(cname, variable.type))
        if value is not None:
            scope.out.append(Assign(variable, value))
    else:
        scope.out.append(Declare(cname, variable.type, value))
    if keep:
        scope.variables[name] = variable
    return variable


def _store(
    scope: Scope, target: ast.Subscript | ast.Attribute, value: Value, node: ast.AST
) -> None:
    place = _place(scope, target)
    scope.out.append(Store(place, operations.assignable(scope, node, value, str(place.type))))


def _place(scope: Scope, target: ast.expr) -> Element | FieldAccess:
    """Return the element of memory that is assigned."""
    place = expressions.evaluate(scope, target)
    if not isinstance(place, Expression):
        raise scope.problem(target, TypeError, f"{describe(place)} cannot be assigned to")
    if isinstance(place.type, ArrayType | BufferType):
        raise scope.problem(
            target, TypeError, f"a part of an array ({place.type}) cannot be assigned: use a loop"
        )
    whole = without_fields(place)
    if not isinstance(place, Element | FieldAccess) or not isinstance(whole, Element | Name):
        raise scope.problem(target, TypeError, "this cannot be assigned to")
    scope.mark_written(target, place)
    return place


def build_augmented(scope: Scope, node: ast.AugAssign) -> None:
    """Add ``x += value``."""
    if isinstance(node.target, ast.Name):
        known = scope.variables.get(node.target.id)
        if node.target.id not in scope.variables:
            raise scope.problem(node.target, NameError, f"Unbound name: {node.target.id}")
        if known is None:
            raise Stop
        value = expressions.evaluate(scope, node.value)
        result = expressions.binary(scope, node, node.op, known, value)
        if isinstance(known, Name) and isinstance(known.type, str):
            one = operations.assignable(scope, node, result, known.type)
            scope.out.append(Assign(known, one))
        else:
            assign(scope, node.target, result, node)
        return
    place = _place(scope, node.target)
    if not operations.is_pure(place):
        name = scope.fresh_name("place")
        scope.out.append(Reference(name, place))
        target: Name | Element | FieldAccess = Name(name, place.type)
    else:
        target = place
    value = expressions.evaluate(scope, node.value)
    result = expressions.binary(scope, node, node.op, target, value)
    one = operations.assignable(scope, node, result, str(place.type))
    if isinstance(target, Name):
        scope.out.append(Assign(target, one))
    else:
        scope.out.append(Store(target, one))


def loop_variable(
    scope: Scope, node: ast.For, name: str, dtype: str
) -> tuple[Name, Sequence[KernelStatement]]:
    """Return the counter of a loop, and what gives its variable its value.

    The variable itself counts, if nothing but this loop, or loops like it, uses it.
    """
    known = scope.variables.get(name)
    if known is None and name not in scope.variables and _is_counter_only(scope, name):
        variable = Name(cpp_name(name), dtype)
        # Known inside, and to other loops, which declare it anew.
        scope.variables[name] = variable
        scope.numbers[f"counter {name}"] = 1
        return variable, ()
    if scope.numbers.get(f"counter {name}"):
        is_same = isinstance(known, Name) and known.type == dtype
        variable = Name(cpp_name(name) if is_same else scope.fresh_name("counter"), dtype)
        scope.variables[name] = variable
        return variable, ()
    counter = Name(scope.fresh_name("counter"), dtype)
    if isinstance(known, Known) and known.is_number:  # the last item of a tuple, say
        value = operations.as_expression(scope, node, known, dtype)
        scope.hoisted.append(Declare(cpp_name(name), dtype, value))
        known = Name(cpp_name(name), dtype)
        scope.variables[name] = known
    if known is None:
        scope.hoisted.append(Declare(cpp_name(name), dtype))
        known = Name(cpp_name(name), dtype)
        scope.variables[name] = known
    if not isinstance(known, Name) or not isinstance(known.type, str):
        raise scope.problem(node.target, TypeError, f"{name} is {describe(known)} already")
    if not types.can_cast(dtype, known.type):
        raise scope.problem(node.target, TypeError, f"{name} is {known.type} already")
    return counter, (Assign(known, convert(counter, known.type)),)


def _is_counter_only(scope: Scope, name: str) -> bool:
    """Return whether a name is used in loops over ranges only, and never assigned there."""
    body = scope.captured.node.body
    if not isinstance(body, list) or name in scope.captured.parameters:
        return False
    return not any(_used_outside(body, name, False))


def _used_outside(nodes: Sequence[ast.AST], name: str, inside: bool) -> Iterator[bool]:
    for node in nodes:
        if isinstance(node, ast.For) and _counts(node, name):
            yield inside
            yield from _used_outside([node.iter], name, inside)
            yield from _used_outside(node.body, name, True)
            continue
        if isinstance(node, ast.Name) and node.id == name:
            yield not inside or not isinstance(node.ctx, ast.Load)
        yield from _used_outside(list(ast.iter_child_nodes(node)), name, inside)


def _counts(node: ast.For, name: str) -> bool:
    """Return whether a loop has a counter of that name: items of tuples have types of their own."""
    is_named = isinstance(node.target, ast.Name) and node.target.id == name
    is_range = isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func).endswith("range")
    return is_named and is_range


def poison(scope: Scope, node: ast.stmt) -> None:
    """Mark the variables of a statement with a problem, so that it is told once."""
    for name in assigned_names(ast.Module([node], [])):
        scope.variables.setdefault(name, None)
