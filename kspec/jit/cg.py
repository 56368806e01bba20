"""Cooperative groups, by the names of CUDA's: the block, the grid, and copies by a group.

>>> from kspec import jit
>>> @jit.rawkernel()
... def ordered(x):
...     grid = jit.cg.this_grid()
...     x[grid.thread_rank()] += 1
...     grid.sync()

A kernel that waits for the grid is launched cooperatively.  Copies are done when the call returns
for all threads that have waited.
"""

from __future__ import annotations

from dataclasses import replace

from kspec.dataclass import dataclass
from kspec.ir.nodes import BuiltinCall, Element, Expression, FunctionCall
from kspec.ir.types import ObjectType, Type, is_memory
from kspec.jit.call_site import CallSite
from kspec.jit.syntax import indexing
from kspec.jit.values import Known, Method, TupleValue, Value, convert, describe

__all__ = ["memcpy_async", "sync", "this_grid", "this_thread_block", "wait", "wait_prior"]

_BLOCK = ObjectType("cooperative_groups::thread_block")
_GRID = ObjectType("cooperative_groups::grid_group")
_DIM3 = ObjectType("dim3")
_METHODS: dict[ObjectType, dict[str, Type]] = {
    _BLOCK: {
        **{"sync": "", "thread_rank": "uint32", "size": "uint32", "num_threads": "uint32"},
        **{"group_index": _DIM3, "thread_index": _DIM3, "group_dim": _DIM3, "dim_threads": _DIM3},
    },
    _GRID: {
        **{"sync": "", "is_valid": "bool", "thread_rank": "uint64", "size": "uint64"},
        **{"num_threads": "uint64", "num_blocks": "uint64", "block_rank": "uint64"},
        **{"group_dim": _DIM3, "dim_blocks": _DIM3, "block_index": _DIM3},
    },
}


@dataclass(frozen=True)
class GroupFunction:
    """A function of cooperative groups.

    Attributes
    ----------
    name : str
        As users write it behind ``jit.cg.``.
    """

    name: str

    def __repr__(self) -> str:
        return f"kspec.jit.cg.{self.name}"

    def compile_call(self, site: CallSite) -> Value:
        """Return the value of a call of it in a kernel."""
        site = replace(site, callee=f"jit.cg.{self.name}")
        site.scope.program.headers.add("cooperative_groups.h")
        if self.name in ("this_grid", "this_thread_block"):
            site.bind()
            type_ = _GRID if self.name == "this_grid" else _BLOCK
            return FunctionCall(f"cooperative_groups::{self.name}", (), type_)
        if self.name == "memcpy_async":
            return _copy(site)
        given = site.bind(*_WORDS[self.name])
        if self.name == "wait_prior" and not isinstance(given[1], Known):
            raise site.problem(ValueError, f"{site.callee}: the number must be a constant")
        return call_method(replace(site, args=()), Method(_group(site, given[0]), "sync"))


def call_method(site: CallSite, one: Method) -> Value:
    """Return a method of a group."""
    type_ = one.owner.type
    found = _METHODS.get(type_, {}) if isinstance(type_, ObjectType) else {}
    if one.name not in found:
        raise site.problem(TypeError, f"{type_} has no method {one.name!r}")
    if site.args:
        raise site.problem(TypeError, f"{one.name}() takes no arguments")
    if type_ == _GRID and one.name == "sync":
        site.scope.program.cooperative = True
    return BuiltinCall(f"group.{one.name}", (one.owner,), found[one.name])


def _group(site: CallSite, value: Value) -> Expression:
    if not isinstance(value, Expression) or value.type not in (_BLOCK, _GRID):
        raise site.problem(TypeError, f"{describe(value)} is not a group")
    return value


_WORDS = {"sync": ("group",), "wait": ("group",), "wait_prior": ("group", "stage")}
_COPY = "group", "dst", "dst_idx", "src", "src_idx", "size", "aligned_size="


def _copy(site: CallSite) -> Value:
    given = site.bind(*_COPY)
    group = _group(site, given[0])
    if not isinstance(given[6], Known):
        raise site.problem(ValueError, f"{site.callee}: aligned_size must be a constant")
    places = [_address(site, given[k], given[k + 1]) for k in (1, 3)]
    assert isinstance(places[0].args[0], Element)
    site.scope.mark_written(site.node, places[0].args[0].memory)
    size = convert(site.scalar(given[5]), "int64")
    site.scope.program.headers.add("kspec/cooperative.cuh")
    return FunctionCall("kspec::copy_by_group", (group, *places, size), "")


def _address(site: CallSite, array: Value, index: Value) -> BuiltinCall:
    if not isinstance(array, Expression) or not is_memory(array.type):
        raise site.problem(TypeError, f"{site.callee} copies arrays, not {describe(array)}")
    indices = list(index.items) if isinstance(index, TupleValue) else [index]
    element = indexing.index_memory(site.scope, site.node, array, indices)
    if not isinstance(element, Element):
        raise site.problem(TypeError, f"{site.callee}: the index is that of a row")
    return BuiltinCall("address", (element,), ObjectType("void*"))


this_grid = GroupFunction("this_grid")
this_thread_block = GroupFunction("this_thread_block")
sync = GroupFunction("sync")
wait = GroupFunction("wait")
wait_prior = GroupFunction("wait_prior")
memcpy_async = GroupFunction("memcpy_async")
