"""Recognition of sums: expressions of a reduction in, the sums that its outputs are out.

>>> from kspec.spec.models import ReductionSpec
>>> norm = ReductionSpec(name="norm", inputs="T x", outputs="T y", map="x * x", reduce="a + b",
...                      post_map="y = a", identity="0")
>>> norm.declaration().sums
'values'

Gradients of the other forms of a reduction are derived of sums alone (`kspec.model.backward`).
"""

from __future__ import annotations

from typing import Protocol

from kspec.cpp.fragments import code_of
from kspec.model import dtypes
from kspec.model.declaration import MEANS, SUMS_OF_ELEMENTS, SUMS_OF_VALUES
from kspec.model.signature import Signature

_SUMS = (("a", "+", "b"), ("b", "+", "a"))
_ZEROS = frozenset({"0", "0.0", "0.", "T(0)"})
_COUNT = "(_in_ind.size()/_out_ind.size())"


class Folding(Protocol):
    """Fields of a reduction's spec that are read here."""

    inputs: Signature
    outputs: Signature
    map: str
    reduce: str
    post_map: str
    reduce_type: str
    identity: str | None

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Distinct type placeholders."""


def recognized_sums(spec: Folding) -> str:
    """Return the sums that the outputs are, in the words of the declaration; empty: none.

    The map must not depend on where an element is. What it computes does not matter.
    """
    if len(spec.outputs) != 1 or not _adds_numbers(spec):
        return ""
    (output,) = spec.outputs
    post = _tokens(spec.post_map)
    if _tokens(spec.reduce) not in _SUMS or post[:3] != (output.name, "=", "a"):
        return ""
    if post[3:]:
        return MEANS if "".join(post[3:]) == f"/{_COUNT}" else ""
    alone = [(param.name, param.type) for param in spec.inputs] == [(spec.map.strip(), output.type)]
    # Another identity is the first output of an exclusive scan, but is in no gradient.
    nothing = spec.identity is None or spec.identity.strip() in _ZEROS
    return SUMS_OF_ELEMENTS if alone and nothing else SUMS_OF_VALUES


def _adds_numbers(spec: Folding) -> bool:
    """Whether the accumulator is a real or complex number: a struct may add in its own way."""
    if not spec.reduce_type or spec.reduce_type in spec.placeholders:
        return True
    row = dtypes.from_ctype(spec.reduce_type)
    return row is not None and row.kind in "fc"


def _tokens(text: str) -> tuple[str, ...]:
    found = tuple(token.text for token in code_of(text))
    return found[:-1] if found[-1:] == (";",) else found
