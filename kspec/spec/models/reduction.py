"""Specs of reduction kernels, in all their forms."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pydantic import Field, ValidationInfo

from kspec.cpp.directives import header_names
from kspec.cpp.fragments import code_of, identifiers, mentions, offset_of, without_phrases
from kspec.model.declaration import ReductionDeclaration
from kspec.model.forms.kinds import REDUCE
from kspec.spec import rules
from kspec.spec.base import accepted
from kspec.spec.faults import Fault
from kspec.spec.fields import IdentityField
from kspec.spec.forms import form_faults, join_of
from kspec.spec.gradients.sums import recognized_sums
from kspec.spec.models.generated import GeneratedSpec
from kspec.spec.outputs import may_read, never_assigned, updated

_INDICES = frozenset({"_J", "_i", "_j", "_segment"})
_COUNTS = frozenset({"_in_ind", "_out_ind"})
_REDUCTION_ORDER = _INDICES | _COUNTS
# Expressions that see no element of an input, and what messages call them.
_WITHOUT_ELEMENTS = {
    "reduce": "reduce expression",
    "post_map": "post-map",
    "identity": "identity",
}
# An indexer that is asked for its size only, and what may ask one for more.
_IN_SIZE, _OUT_SIZE = ((name, ".", "size", "(", ")") for name in ("_in_ind", "_out_ind"))
_MORE = frozenset({(".", "get"), (".", "set"), (".", "ndim"), ("::", "ndim")})
# How many elements each output has, which is the same for any number of outputs: in brackets of
# its own, for what stands on its left would be divided twice.
_RATIO = ("(", *_IN_SIZE, "/", *_OUT_SIZE, ")")


class ReductionSpec(GeneratedSpec):
    """A kernel that folds the elements along axes into one."""

    kind = "reduction"
    fragment_fields = ("identity", "map", "reduce", "post_map", "reduce_type")
    element_names = _REDUCTION_ORDER | {"a", "b"}

    map: str = Field(description="Expression of the inputs for one element.")
    reduce: str = Field(description="Expression that folds 'a' and 'b' into one.")
    post_map: str = Field(description="Expression that assigns the outputs from 'a'.")
    identity: IdentityField = Field(
        None, description="Start of the fold and value of reducing nothing; absent: no such value."
    )
    reduce_type: str = Field(
        "", description="C++ type or placeholder of the accumulator; absent: by the first output."
    )
    forms: tuple[str, ...] = Field(
        (REDUCE,),
        description="Forms that are precompiled, and methods of the generated function: 'reduce', "
        "'scan', 'segments', 'by_key', 'window'.",
    )
    strict_keys: bool = Field(
        False, description="Whether keys out of range are errors; otherwise they are left out."
    )

    def declaration(self) -> ReductionDeclaration:
        """Return the declaration for callers of this spec."""
        folded = set(identifiers(self.reduce, self.post_map)) - {"a", "b"}
        folded |= set(identifiers(self.identity or ""))
        indexed = self._is_indexed()
        return ReductionDeclaration(
            self.name,
            self._with_axes(self.inputs),
            self._with_axes(self.outputs),
            self.doc,
            reduce_dims=self.reduce_dims,
            has_identity=self.identity is not None,
            ordered=bool(self.raw_views) or not self.words.isdisjoint(_REDUCTION_ORDER),
            raw_views=self.raw_views,
            indexers=self.indexers,
            scalars=tuple(p.name for p in self.inputs if not p.raw and p.name in folded),
            accumulator=self.reduce_type,
            indexed=indexed,
            counts=not _COUNTS.isdisjoint(without_phrases(self.post_map, [_RATIO])),
            forms=tuple(one for one in self.forms if one != REDUCE),
            joins=join_of(self.reduce, self.preamble),
            forms_only=REDUCE not in self.forms and bool(self.forms),
            counted=not self.words.isdisjoint(_COUNTS),
            strict_keys=self.strict_keys,
            sums="" if indexed or self.has_core else recognized_sums(self),
            sizes=tuple(self.all_sizes.items()),
            backward=self.backward_kernel,
            numbers=self.numbers,
            updates=updated(self.post_map, self.seen_outputs, self.expansion),
            loads_outputs=may_read(self.post_map, self.seen_outputs, self.expansion),
            subscripts=self._has_subscripts(),
        )

    @property
    def indexers(self) -> tuple[str, ...]:
        """Those of ``_in_ind`` and ``_out_ind`` of which some text reads more than the size."""
        texts = (*self.fragments.values(), *self.macro_texts)
        if not any(map(_asks_more, (*texts, self.preamble))):
            return ()
        sizes = (_IN_SIZE, _OUT_SIZE)
        rest = {word for text in texts for word in without_phrases(text, sizes)}
        return tuple(name for name in sorted(_COUNTS) if name in rest)

    def _is_indexed(self) -> bool:
        """Whether more than the post-map depends on indices or the number of elements."""
        if self.raw_views or self.indexers:
            return True
        before = (self.map, self.reduce, self.identity or "", *self.macro_texts)
        return not self.words.isdisjoint(_INDICES) or mentions(set(_REDUCTION_ORDER), *before)

    def _faults(self, info: ValidationInfo) -> Iterator[Fault]:
        yield from super()._faults(info)
        if not self.outputs.params and accepted(info, "outputs"):
            yield Fault(("outputs",), "a reduction needs at least one output, such as 'T y'")
        for param in self.outputs:
            if param.raw:
                message = f"output {param.name!r} of a reduction cannot be raw"
                yield Fault(("outputs",), message, word="raw")
        fragments = {"map": self.map, "reduce": self.reduce, "post_map": self.post_map}
        yield from rules.not_empty(**fragments)
        yield from rules.raw_views_exist(self.params, fragments)
        yield from rules.expressions(map=self.map, reduce=self.reduce, identity=self.identity or "")
        fragments |= {"preamble": self.preamble, "identity": self.identity or ""}
        yield from rules.balanced(fragments, self.preamble, self.options)
        yield from rules.ends_its_line(fragments)
        if accepted(info, "inputs", "outputs", "sizes"):
            yield from self._size_faults({"map": self.map, "post_map": self.post_map})
            yield from self._core_faults()
        if accepted(info, "inputs", "outputs"):
            yield from rules.reduce_type_is_known(
                self.reduce_type, self.placeholders, self.preamble, self.options
            )
            yield from form_faults(self.forms, self.declaration())

    def _faults_of_meaning(self) -> Iterator[Fault]:
        yield from super()._faults_of_meaning()
        yield from never_assigned("post_map", self.post_map, self.seen_outputs, self.expansion)
        yield from self._faults_of_arrays()

    def _faults_of_arrays(self) -> Iterator[Fault]:
        """Yield a fault if all inputs are read where arrays have no elements any more."""
        arrays = [param.name for param in self.inputs if not param.raw]
        if not arrays or not set(arrays) <= set(self.declaration().scalars):
            return
        for field, label in _WITHOUT_ELEMENTS.items():
            text = getattr(self, field) or ""
            name = next((name for name in arrays if offset_of(name, text) >= 0), "")
            if name:
                message = (
                    f"the {label} cannot read {name}, the array that is reduced; combine {name} "
                    "and the result in an elementwise kernel, or in a function of kspec.fuse"
                )
                yield Fault((field,), message, offset_of(name, text), len(name))

    def _core_faults(self) -> Iterator[Fault]:
        """Yield the faults of sizes that nothing decides, and of expressions without items."""
        for name in self.given_sizes:
            message = f"{name!r} is not a core dimension of any input, which would decide it"
            yield Fault(("sizes", name), message, at_key=True)
        declared = self.declaration()
        for param in self.inputs:
            if param.core and (param.name in declared.scalars or param.non_const):
                reason = "it is _non_const" if param.non_const else "other expressions read it"
                message = f"{param} has core dimensions, which only the map can read; {reason}"
                yield Fault(("inputs",), message, word=param.name)
        if self.has_core:
            yield from self._view_faults()


def _asks_more(text: str) -> bool:
    """Return whether a text may ask an indexer for more than its size."""
    pairs = itertools.pairwise(token.text for token in code_of(text))
    return bool(header_names(text)) or not _MORE.isdisjoint(pairs)
