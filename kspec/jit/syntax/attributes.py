"""Attributes in, values out: of modules, arrays, numbers, records and groups."""

from __future__ import annotations

import ast
import types as python_types

import numpy as np

from kspec.ir.nodes import BuiltinCall, Expression, Extent, FieldAccess
from kspec.ir.types import ArrayType, BufferType, ObjectType
from kspec.jit import operations
from kspec.jit.builtins import DeviceNumber, Dim3
from kspec.jit.scope import Scope
from kspec.jit.values import Known, Method, TupleValue, Value, is_record_in_memory
from kspec.model import dtypes
from kspec.runtime.memory import numpy_dtype


def attribute(scope: Scope, node: ast.Attribute, owner: Value) -> Value:
    """Return an attribute of a value."""
    name = node.attr
    if isinstance(owner, Known):
        return _attribute_of_known(scope, node, owner, name)
    if isinstance(owner, TupleValue | Method):
        raise scope.problem(node, AttributeError, f"a tuple has no attribute {name} here")
    type_ = owner.type
    if isinstance(type_, ArrayType):
        found = _attribute_of_array(owner, type_, name)
    elif isinstance(type_, BufferType):
        found = _attribute_of_buffer(owner, type_, name)
    elif isinstance(type_, str):
        found = _attribute_of_number(scope, node, owner, type_, name)
    elif type_ == ObjectType("dim3") and name in ("x", "y", "z"):
        found = FieldAccess(owner, name, "uint32")
    else:
        found = Method(owner, name)
    if found is None:
        raise scope.problem(node, TypeError, f"{type_} has no attribute {name!r} in kernels")
    return found


def _attribute_of_known(scope: Scope, node: ast.AST, owner: Known, name: str) -> Value:
    value = owner.value
    if isinstance(value, Dim3) and name in ("x", "y", "z"):
        return BuiltinCall(f"{value.name}.{name}", (), "uint32")
    try:
        if isinstance(value, np.void) and name in (value.dtype.names or ()):
            found = value[name]
        elif not isinstance(value, python_types.ModuleType):
            found = getattr(value, name)
        elif owner.path and value is not np and not value.__name__.startswith("kspec"):
            found = scope.captured.attribute(owner.path, value, name)
        else:
            found = getattr(value, name)
    except AttributeError as error:
        raise scope.problem(node, NameError, str(error)) from None
    if isinstance(found, DeviceNumber):
        return BuiltinCall(found.name, (), "int32")
    is_module = isinstance(found, python_types.ModuleType)
    return Known(found, f"{owner.path}.{name}" if is_module and owner.path else "")


def _attribute_of_array(owner: Expression, type_: ArrayType, name: str) -> Value | None:
    if name == "ndim":
        return Known(type_.ndim)
    if name == "size":
        return Extent(owner, "size")
    if name in ("shape", "strides"):
        return TupleValue(tuple(Extent(owner, name, axis) for axis in range(type_.ndim)))
    if name == "dtype":
        return Known(numpy_dtype(type_.dtype))
    return Method(owner, name) if name in ("begin", "end") else None


def _attribute_of_buffer(owner: Expression, type_: BufferType, name: str) -> Value | None:
    if name == "dtype":
        return Known(numpy_dtype(type_.dtype))
    if type_.shape is None:
        return None
    if name == "ndim":
        return Known(len(type_.shape))
    if name == "size":
        return Known(int(np.prod(type_.shape)))
    return TupleValue(tuple(map(Known, type_.shape))) if name == "shape" else None


def _attribute_of_number(
    scope: Scope, node: ast.AST, owner: Expression, type_: str, name: str
) -> Value | None:
    row = dtypes.lookup(type_)
    if row.fields:
        for field in row.fields:
            if field.name == name:
                return member(scope, owner, field)
        if name == "copy":
            return Method(owner, name)
        known = ", ".join(field.name for field in row.fields)
        raise scope.problem(node, NameError, f"{type_} has no field {name!r}; it has {known}")
    if name in ("real", "imag"):
        return BuiltinCall(name, (owner,), dtypes.real_part(type_))
    return Method(owner, name) if name in ("conjugate", "conj") else None


def member(scope: Scope, owner: Expression, field: dtypes.Field) -> FieldAccess:
    """Return a field of a record."""
    if field.shape and not is_record_in_memory(owner):
        owner = operations.stored(scope, owner)  # an array has an address
    name = field.dtype.name
    return FieldAccess(owner, field.member, BufferType(name, field.shape) if field.shape else name)
