"""Operations that CUDA has and NumPy lacks: indices, barriers, atomics, shuffles, C's arithmetic.

>>> DEVICE["threadIdx.x"].text, DEVICE["atomic_add"].text.format("y[0]", "x")
('threadIdx.x', 'atomicAdd(&y[0], x)')

Rows are those of `kspec.ir.builtins`, and `BuiltinCall` names both.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kspec.ir.builtins import Builtin

_AXES = "xyz"
_OF_GROUPS = """
    sync thread_rank size num_threads group_index thread_index group_dim dim_threads is_valid
    num_blocks block_rank dim_blocks block_index
"""
_INDICES = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def _atomic(name: str, function: str, operands: int = 1) -> Builtin:
    values = "".join(f", {{{k + 1}}}" for k in range(operands))
    return Builtin(name, f"{function}(&{{0}}{values})", operands + 1)


def _shuffle(name: str) -> Builtin:
    return Builtin(name, f"__{name}({{0}}, {{1}}, {{2}}, {{3}})", 4)


_TABLE = (
    *(Builtin(f"{one}.{axis}", f"{one}.{axis}", 0) for one in _INDICES for axis in _AXES),
    Builtin("warpsize", "warpSize", 0),
    Builtin("laneid", "kspec::lane_id()", 0),
    # C's arithmetic of integers: compilers know that signed ones do not overflow.
    Builtin("add.c", "{0} + {1}", 2),
    Builtin("subtract.c", "{0} - {1}", 2),
    Builtin("multiply.c", "{0} * {1}", 2),
    Builtin("negative.c", "-{0}", 1),
    Builtin("syncthreads", "__syncthreads()", 0),
    Builtin("syncwarp", "__syncwarp({0})", 1),
    Builtin("threadfence", "__threadfence()", 0),
    _atomic("atomic_add", "atomicAdd"),
    _atomic("atomic_sub", "atomicSub"),
    _atomic("atomic_exch", "atomicExch"),
    _atomic("atomic_min", "atomicMin"),
    _atomic("atomic_max", "atomicMax"),
    _atomic("atomic_inc", "atomicInc"),
    _atomic("atomic_dec", "atomicDec"),
    _atomic("atomic_cas", "atomicCAS", 2),
    _atomic("atomic_and", "atomicAnd"),
    _atomic("atomic_or", "atomicOr"),
    _atomic("atomic_xor", "atomicXor"),
    *(Builtin(f"group.{name}", f"{{0}}.{name}()", 1) for name in _OF_GROUPS.split()),
    Builtin("address", "&{0}", 1),
    *map(_shuffle, ("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync")),
)

DEVICE: Mapping[str, Builtin] = MappingProxyType({row.name: row for row in _TABLE})

SIDE_EFFECTS = frozenset(
    name
    for name in DEVICE
    if name.startswith(("sync", "atomic_", "shfl_", "threadfence", "group.sync"))
)
"""Those that do more than to return a value."""
