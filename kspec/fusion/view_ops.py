"""View operations: the elements that each selects, their order, and the composition of two.

>>> first = ViewOp("index", (slice(None), None))
>>> print(*compose((first,), ViewOp("index", (slice(1, None), 0))))
.index(1:)
>>> reshape_as_index((3, 1), (1, 3))
(None, slice(None, None, None), 0)
"""

from __future__ import annotations

from kspec.dataclass import dataclass

# One entry for each axis of the indexed array, and None where an axis of extent 1 is put in.
Index = tuple[int | slice | None, ...]


@dataclass(frozen=True)
class ViewOp:
    """One op of a view.

    Attributes
    ----------
    kind : str
        ``index``, ``permute``, ``reshape`` or ``broadcast``.
    detail : tuple
        An `Index`, an order of axes, or extents.
    """

    kind: str
    detail: tuple[int | slice | None, ...]

    def __hash__(self) -> int:
        return hash((self.kind, tuple(map(str, self.detail))))  # slices have no hash before 3.12

    def __str__(self) -> str:
        return f".{self.kind}({', '.join(map(_entry_text, self.detail))})"


def compose(ops: tuple[ViewOp, ...], op: ViewOp) -> tuple[ViewOp, ...]:
    """Return the ops of a view of a view; none if that is where it began.

    An index that only puts axes in becomes part of the next one: ``x[:, None][:, 0]`` is ``x``, and
    is computed where that is.
    """
    last = ops[-1]
    if last.kind == op.kind == "index":
        index = _index_after(last.detail, op.detail)
        if index is not None:
            more = () if all(entry == slice(None) for entry in index) else (ViewOp("index", index),)
            return (*ops[:-1], *more)
    return (*ops, op)


def _index_after(first: Index, second: Index) -> Index | None:
    """Return one index for two; None if the first does more than to put axes in."""
    if any(entry is not None and entry != slice(None) for entry in first):
        return None
    found: list[int | slice | None] = []
    before = iter(first)
    for entry in second:
        if entry is None or next(before) is not None:
            found.append(entry)
        elif isinstance(entry, slice):  # of an axis of extent 1
            if not range(*entry.indices(1)):
                return None
            found.append(None)
    return tuple(found)


def reshape_as_index(sizes: tuple[int, ...], wanted: tuple[int, ...]) -> Index | None:
    """Return the index that gives other extents, if only axes of extent 1 come and go."""
    if [size for size in sizes if size != 1] != [size for size in wanted if size != 1]:
        return None
    found: list[int | slice | None] = []
    rest = iter(sizes)
    for size in wanted:
        if size == 1:
            found.append(None)
            continue
        while next(rest) == 1:
            found.append(0)
        found.append(slice(None))
    return (*found, *(0 for _ in rest))


def _entry_text(entry: int | slice | None) -> str:
    if not isinstance(entry, slice):
        return str(entry)
    parts = ["" if part is None else str(part) for part in (entry.start, entry.stop, entry.step)]
    return f"{parts[0]}:{parts[1]}" + (f":{parts[2]}" if parts[2] else "")
