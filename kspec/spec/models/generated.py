"""Fields and checks that elementwise and reduction specs have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field, StrictBool, ValidationInfo

from kspec.cpp.expansion import Expansion
from kspec.cpp.fragments import has_subscripts, identifiers, macros
from kspec.cpp.options import split_macros
from kspec.cpp.preambles import indexed_axes, is_used_as_array, preamble_names
from kspec.model.coverage import bindings_of, layout_fault
from kspec.model.declaration import GeneratedDeclaration
from kspec.model.dimensions import core_names
from kspec.model.signature import Signature
from kspec.spec import rules
from kspec.spec.base import BaseSpec, accepted
from kspec.spec.dimensions import dimension_faults, example_faults, index_faults
from kspec.spec.faults import Fault
from kspec.spec.fields import BackwardField, SignatureField, TypesField
from kspec.spec.gradients import rules as gradient_rules
from kspec.spec.neighbours.windows import SizesField, size_fault
from kspec.spec.python_slips import python_slips

_NO_PARAMS = Signature()
# Other keyword arguments of elementwise calls, and names of parameters behind them.
_CHECK_KEYWORDS = ("sanitize", "order", "timeout", "args", "options", "self")


class GeneratedSpec(BaseSpec):
    """Base of elementwise and reduction specs: signatures and types."""

    fragment_fields: ClassVar[tuple[str, ...]]
    element_names: ClassVar[frozenset[str]]  # variables that fragments have beside the parameters

    inputs: SignatureField = Field(
        _NO_PARAMS, description="Parameters read: 'T x, raw T y', or a list with one per string."
    )
    outputs: SignatureField = Field(_NO_PARAMS, description="Parameters written, like `inputs`.")
    preamble: str = Field("", description="CUDA C++ before the kernel: helpers, macros.")
    reduce_dims: StrictBool = Field(
        True, description="Merge axes where possible; false: _ind has those of the arguments."
    )
    types: TypesField = Field(
        {},
        description="What is precompiled: placeholder to dtypes, or a list of combinations.",
    )
    layouts: tuple[str, ...] = Field(
        (),
        description="Layouts precompiled beside those that follow, such as 'Strided<64>'; "
        "'parts': those that reduce arrays in several places.",
    )
    backward: BackwardField = Field(
        None,
        description="Gradients: CUDA C++ of each input's, { x = 'grad_y * x' }; or a kernel.",
    )
    sizes: SizesField = Field(
        {}, description="Integer placeholders, and their precompiled values: { R = [1, 2] }."
    )

    @property
    def compiler_options(self) -> tuple[str, ...]:
        """The options that the compiler gets; those that define macros become text."""
        return split_macros(self.options)[1]

    @property
    def macros(self) -> tuple[str, ...]:
        """Directives for the options that define macros."""
        return split_macros(self.options)[0]

    @property
    def fragments(self) -> dict[str, str]:
        """The pieces of CUDA C++ inside the kernel, by field."""
        return {field: getattr(self, field) or "" for field in self.fragment_fields}

    @property
    def words(self) -> frozenset[str]:
        """Every identifier that the kernel may contain, macros expanded."""
        return frozenset(identifiers(*self.fragments.values(), *self.macro_texts))

    @property
    def macro_texts(self) -> tuple[str, ...]:
        """The macros of the preamble and of the options, as text."""
        return macros(self.preamble), *self.macros

    @property
    def expansion(self) -> Expansion:
        """The macros that may stand in the fragments."""
        return Expansion.of(
            self.preamble,
            *self.fragments.values(),
            options=self.options,
            variables=(*self.params.names, *self.placeholders, *self.element_names),
            declared=preamble_names(self.preamble),
        )

    @property
    def seen_outputs(self) -> Signature:
        """The outputs of which the kernel sees elements only, and no array."""
        views = self.raw_views
        return Signature(tuple(one for one in self.outputs if one.name not in views))

    @property
    def backward_kernel(self) -> str:
        """The kernel that computes the gradients: the one named, or that of the expressions."""
        return (
            f"{self.name}_backward" if isinstance(self.backward, Mapping) else self.backward or ""
        )

    @property
    def numbers(self) -> tuple[str, ...]:
        """Raw inputs that no text indexes, or reads the shape of."""
        text = "\n".join((*self.fragments.values(), *self.macro_texts))
        return tuple(
            param.name
            for param in self.inputs
            if param.raw and not param.non_const and not is_used_as_array(param.name, text)
        )

    def _has_subscripts(self) -> bool:
        """Whether a text indexes an array or follows a pointer."""
        return any(map(has_subscripts, (*self.fragments.values(), *self.macros, self.preamble)))

    def _with_axes(self, params: Signature) -> Signature:
        """Return parameters, with the axes of raw ones that are indexed by ``x[{j, k}]``."""
        text = "\n".join((*self.fragments.values(), *self.macro_texts))
        return Signature(
            tuple(
                replace(one, ndim=indexed_axes(one.name, text))
                if one.raw and one.ndim is None
                else one
                for one in params
            )
        )

    @property
    def raw_views(self) -> tuple[str, ...]:
        """Parameters whose arrays some text reads as ``_raw_<name>``."""
        return tuple(
            param.name
            for param in self.params
            if not param.raw and f"_raw_{param.name}" in self.words
        )

    @property
    def params(self) -> Signature:
        """Inputs, then outputs."""
        return Signature(self.inputs.params + self.outputs.params)

    @property
    def has_core(self) -> bool:
        """Whether parameters have core dimensions."""
        return any(param.core for param in self.params)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Distinct type placeholders, inputs first."""
        return self.params.placeholders

    @property
    def all_sizes(self) -> Mapping[str, tuple[int, ...]]:
        """Integer placeholders, core dimensions among them, and their precompiled values."""
        return self.sizes | {name: self.sizes.get(name, ()) for name in core_names(self.params)}

    @property
    def given_sizes(self) -> Mapping[str, tuple[int, ...]]:
        """Those that calls give by name, because no input decides them."""
        decided = self.decided_sizes
        return {name: known for name, known in self.sizes.items() if name not in decided}

    @property
    def decided_sizes(self) -> tuple[str, ...]:
        """Integer placeholders that the shapes of inputs decide: their core dimensions."""
        return core_names(self.inputs)

    @property
    def size_names(self) -> tuple[str, ...]:
        """Integer placeholders that calls give by name."""
        return tuple(self.given_sizes)

    def bindings(self) -> rules.Bindings:
        """Return the bindings to precompile, each in the order of `placeholders`.

        A spec without placeholders has one, which is empty; a spec with placeholders and no
        `types` has none and is compiled lazily only.
        """
        return bindings_of(self.types, self.placeholders)

    def declaration(self) -> GeneratedDeclaration:
        """Return the declaration for callers of this spec."""
        raise NotImplementedError

    def _faults(self, info: ValidationInfo) -> Iterator[Fault]:
        yield from super()._faults(info)
        yield from rules.reserved_names(self.kind, self.inputs, self.outputs)
        yield from rules.clashing_names(self.name, self.inputs, self.outputs)
        if not accepted(info, "inputs", "outputs"):
            return
        type_faults = (
            *rules.types_fit(self.placeholders, self.types),
            *rules.few_bindings(self.placeholders, self.types),
        )
        yield from type_faults
        if not type_faults:
            yield from rules.preamble_is_generic(self.preamble, self.placeholders, self.bindings())
        for index, text in enumerate(self.layouts):
            message = layout_fault(self.declaration(), text)
            if message:
                yield Fault(("layouts", index), message, offset=0, length=len(text))
        yield from self._example_faults(self.params.names, self.inputs.names)
        shapes = self.example.shapes if self.example else {}
        for name in self.declaration().scalars if shapes else ():
            if name in shapes:
                message = f"{name!r} is read where there are no elements, so it must be a number"
                where = ("example", "shapes", name)
                yield Fault(where, f"{message}; list it in 'scalars'", at_key=True)
        if self.backward is not None and accepted(info, "backward"):
            yield from gradient_rules.backward_fits(self, self.backward, self.declaration().scalars)

    def _faults_of_meaning(self) -> Iterator[Fault]:
        names = self.expansion.variables
        for field, text in self.fragments.items():
            yield from python_slips(field, text, names)

    def _view_faults(self) -> Iterator[Fault]:
        """Yield the views of arguments, which kernels with windows or core dimensions lack."""
        kind = "core dimensions" if self.has_core else "windows"
        for name in self.raw_views:
            message = f"kernels with {kind} have no _raw_{name}; add a raw input for the array"
            texts = {**self.fragments, "preamble": self.preamble}
            fields = (key for key, text in texts.items() if f"_raw_{name}" in text)
            yield Fault((next(fields, "options"),), message, word=f"_raw_{name}")

    def _size_faults(self, texts: Mapping[str, str]) -> Iterator[Fault]:
        """Check sizes and core dimensions; `texts` have elements of parameters, by field."""
        taken = {name: "a parameter too" for name in self.params.names}
        taken |= {letter: "a type placeholder too" for letter in self.placeholders}
        taken |= {
            name: "a name of generated code"
            for name in self.all_sizes
            if name in rules.variables(self.kind) or rules.is_generated(self.kind, name)
        }
        taken |= {self.name: "the name of the kernel too"}
        keywords = (*rules.call_keywords(self.kind), "boundary", *_CHECK_KEYWORDS)
        taken |= {name: "a keyword argument of calls" for name in keywords}
        named = (size_fault(name, taken, "sizes", name, at_key=True) for name in self.sizes)
        yield from filter(None, named)
        yield from dimension_faults(self.inputs, self.outputs, self.sizes, taken)
        for field, text in texts.items():
            yield from index_faults(self.params, self.all_sizes, field, text)
        if self.has_core and self.example:
            yield from example_faults(self.params, self.example.shapes, self.example.sizes)
