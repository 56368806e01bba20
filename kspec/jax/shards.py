"""Axes of a mesh over which values differ, inside `jax.shard_map`.

JAX writes it into the type of each value, checks it where results leave the mapped function, and
sums gradients of values that are the same on all devices.  It knows nothing of foreign functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

Axes = frozenset[str]


def varying_axes(types: Iterable[Any]) -> Axes:
    """Return the axes over which values of these types differ; none outside of `jax.shard_map`."""
    return frozenset().union(*map(_axes_of, types))


def varying(value: Any, axes: Axes) -> Any:
    """Return a value that differs over these axes, too, as far as JAX knows."""
    missing = tuple(sorted(axes - _axes_of(jax.typeof(value))))
    if not missing:
        return value
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(value, missing, to="varying")
    return jax.lax.pvary(value, missing)  # the name in older releases of JAX


def _axes_of(kind: Any) -> Axes:
    """Return the axes in the type of a value, from the attribute of this release of JAX."""
    manual = getattr(kind, "manual_axis_type", None)
    found: Axes | None = getattr(kind, "vma", None) if manual is None else manual.varying
    return found or frozenset()
