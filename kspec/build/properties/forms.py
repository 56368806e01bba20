"""The reference of a form, derived from the reduction's own: calls in, their pieces out.

Each output of a form is the reduction of some of the elements: of those up to one (``scan``), from
one bound to the next (``segments``), of a key (``by_key``), of a window (``window``). These
elements are a `FormPiece`. The reference of them must equal the output.

>>> shape, pieces = pieces_of("scan", (3,), {"axis": 0, "exclusive": False, "reverse": False})
>>> [f"x{one.source} -> y{one.place_source}" for one in pieces]
['x[0:1] -> y[0]', 'x[0:2] -> y[1]', 'x[0:3] -> y[2]']
>>> _, pieces = pieces_of("by_key", (3,), {"n": 2, "deterministic": True}, [1, -5, 1])
>>> [f"x{one.source} -> y{one.place_source}" for one in pieces]
['x[[]] -> y[0]', 'x[[0, 2]] -> y[1]']

`kspec.build.properties.form_strategies` draws calls of forms, and the arguments named here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.dataclass import dataclass
from kspec.model.forms.kinds import BY_KEY, REDUCE, SCAN, SEGMENTS, WINDOW
from kspec.model.forms.sliding import SHRINK
from kspec.model.neighbours.places import places_inside
from kspec.model.neighbours.windows import VALID
from kspec.spec.models import ReductionSpec, Spec

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_MOST = 512  # outputs of a call along the axes of a form that are compared
_ROWS = frozenset({"_i", "_j", "_segment"})


@dataclass(frozen=True)
class FormPiece:
    """The elements that outputs are made of, and the place of these outputs.

    Attributes
    ----------
    taken : tuple of (int, slice or tuple of int)
        Axes of the inputs, and the indices along them, one after the other.
    place : tuple of int and slice
        Index of the outputs.
    count : int
        Number of elements.
    """

    taken: tuple[tuple[int, slice | tuple[int, ...]], ...]
    place: tuple[int | slice, ...]
    count: int

    def of(self, array: Array) -> Array:
        """Return the elements in an input."""
        for axis, index in self.taken:
            one = list(index) if isinstance(index, tuple) else index
            array = array[(*(slice(None),) * axis, one)]
        return array

    @property
    def axes(self) -> int | Shape:
        """The axes along which the reference reduces it."""
        found = tuple(sorted({axis for axis, _ in self.taken}))
        return found[0] if len(found) == 1 else found

    @property
    def source(self) -> str:
        """Python that takes the elements, to be written behind an array."""
        return "".join(
            _source([slice(None)] * axis + [list(index) if isinstance(index, tuple) else index])
            for axis, index in self.taken
        )

    @property
    def place_source(self) -> str:
        """Python that takes the outputs, to be written behind a result."""
        return _source(self.place)


WHOLE = FormPiece((), (), 0)
"""All elements of a call, as a reduction has them."""


def _source(index: Sequence[int | slice | list[int]]) -> str:
    texts = []
    for one in index:
        if isinstance(one, slice):
            start, stop = ("" if end is None else str(end) for end in (one.start, one.stop))
            texts.append(f"{start}:{stop}" + (f":{one.step}" if one.step is not None else ""))
        else:
            texts.append(str(one))
    return f"[{', '.join(texts)}]"


def comparable_forms(spec: Spec) -> tuple[str, ...]:
    """Return the forms of a kernel that its reference says something about.

    A reference cannot see the number of a segment, a window or a key, nor how many there are. Nor
    does it see the rows between those of a key, which count for the kernel.
    """
    if not isinstance(spec, ReductionSpec):
        return (REDUCE,)
    declaration = spec.declaration()
    known = {REDUCE}
    if not declaration.counts:
        known.add(SCAN)
        if _ROWS.isdisjoint(spec.words):
            known |= {SEGMENTS, WINDOW} if counts_places(spec) else {SEGMENTS, BY_KEY, WINDOW}
    return tuple(form for form in spec.forms if form in known)


def counts_places(spec: ReductionSpec) -> bool:
    """Whether a kernel knows where an element is along the axis, as a piece of it does not."""
    return "_J" in spec.words


def pieces_of(
    form: str, loop: Shape, keywords: Mapping[str, Any], indices: Sequence[int] = ()
) -> tuple[Shape, list[FormPiece]]:
    """Return the shape of the outputs of a call, and pieces that can be compared.

    Parameters
    ----------
    form : str
        The form.
    loop : tuple of int
        Shape to which the inputs broadcast.
    keywords : mapping of str to object
        Keyword arguments of the call.
    indices : sequence of int
        Bounds of segments, or the key of each row.
    """
    if form == SCAN:
        return loop, _prefixes(loop, keywords["axis"] % len(loop), keywords)
    if form == SEGMENTS:
        pairs = _spread(list(enumerate(itertools.pairwise(indices))))
        cuts = [(k, slice(begin, end), end - begin) for k, (begin, end) in pairs]
        pieces = [FormPiece(((0, cut),), (k,), count) for k, cut, count in cuts]
        return (len(indices) - 1, *loop[1:]), pieces
    if form == BY_KEY:
        return (keywords["n"], *loop[1:]), _keyed(indices, keywords["n"])
    assert form == WINDOW
    return _windows(loop, keywords)


def slack(pieces: Iterable[FormPiece]) -> float:
    """Return the factor by which errors may be larger than those of a reduction.

    Forms add up elements in their order: rounding errors grow with the square root of how many
    there are, and not, as those of a tree, with the logarithm.
    """
    most = max((piece.count for piece in pieces), default=0)
    return max(1.0, round(math.sqrt(most) / 4))


def _prefixes(loop: Shape, axis: int, keywords: Mapping[str, Any]) -> list[FormPiece]:
    """Return the elements up to each one, or from the last one back to it."""
    extent, others = loop[axis], int(not keywords["exclusive"])
    pieces = []
    for k in _spread(range(extent)):
        taken: tuple[tuple[int, slice], ...] = ((axis, slice(0, k + others)),)
        count = k + others
        if keywords["reverse"]:
            begin = k + 1 - others
            taken = (axis, slice(begin, extent)), (axis, slice(None, None, -1))
            count = extent - begin
        pieces.append(FormPiece(taken, (*(slice(None),) * axis, k), count))
    return pieces


def _keyed(keys: Sequence[int], n: int) -> list[FormPiece]:
    """Return the rows of each key; of very many keys some that have rows, and some that do not."""
    rows: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        if 0 <= key < n:
            rows.setdefault(key, []).append(row)
    most = _MOST if n <= _MOST else _MOST // 2
    empty = [key for key in range(n) if key not in rows]
    chosen = sorted([*_spread(sorted(rows), most), *_spread(empty, most)])
    found = [(key, tuple(rows.get(key, ()))) for key in chosen]
    return [FormPiece(((0, own),), (key,), len(own)) for key, own in found]


def _windows(loop: Shape, keywords: Mapping[str, Any]) -> tuple[Shape, list[FormPiece]]:
    """Return the elements of each window."""
    axes = [axis % len(loop) for axis in _several(keywords["axis"])]
    sizes, steps = (_several(keywords[name]) for name in ("size", "step"))
    rows = zip(axes, sizes, steps, strict=True)
    along = {
        axis: _along(loop[axis], size, step, keywords["boundary"]) for axis, size, step in rows
    }
    shape = tuple(len(along[axis]) if axis in along else extent for axis, extent in enumerate(loop))
    pieces = []
    for numbers in _spread(list(itertools.product(*(range(len(along[axis])) for axis in axes)))):
        place: list[int | slice] = [slice(None)] * len(loop)
        for axis, number in zip(axes, numbers, strict=True):
            place[axis] = number
        taken = tuple((axis, along[axis][k]) for axis, k in zip(axes, numbers, strict=True))
        count = int(np.prod([len(one) for _, one in taken]))
        pieces.append(FormPiece(taken, tuple(place), count))
    return shape, pieces


def _along(extent: int, size: int, step: int, boundary: str) -> list[tuple[int, ...]]:
    """Return the indices of the elements of each window along one axis."""
    before = 0 if boundary == VALID else size // 2
    last = extent - size if boundary == VALID else extent - 1
    found = []
    for start in range(-before, last - before + 1, step):
        places = np.arange(start, start + size)
        if boundary == SHRINK:
            places = places[(places >= 0) & (places < extent)]
        elif boundary != VALID:
            places = places_inside(places, extent, boundary, np.where)
        found.append(tuple(places.tolist()))
    return found


def _several(given: Any) -> tuple[int, ...]:
    return given if isinstance(given, tuple) else (given,)


def _spread(items: Sequence[Any], most: int = _MOST) -> list[Any]:
    """Return all of some items, or of very many a part that has the first and the last."""
    last = len(items) - 1
    if last < most:
        return list(items)
    return [items[k * last // (most - 1)] for k in range(most)]
