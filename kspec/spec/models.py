"""Specs: declared kernels as frozen Pydantic models, checked when they are made.

>>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x",
...                        types={"T": ["f4", "f8"]})
>>> spec.bindings()
((('T', 'float32'),), (('T', 'float64'),))

In go the tables of a spec file or the arguments of the Python constructors, out comes a spec
that the renderer can trust.  `kspec.spec.building` makes a `SpecError` of a user's mistakes,
`kspec.spec.loader` reads files of specs, `kspec.render` turns them into source.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr, StrictBool, ValidationInfo

from kspec.cpp.directives import header_names
from kspec.cpp.expansion import Expansion
from kspec.cpp.flow import changes, declared_addresses, declared_names, reads_threads
from kspec.cpp.fragments import (
    code_of,
    identifiers,
    macros,
    mentions,
    takes_address,
    without_phrases,
)
from kspec.cpp.options import split_macros
from kspec.cpp.preambles import (
    declares_variable,
    indexed_axes,
    is_used_as_array,
    preamble_names,
)
from kspec.model.coverage import bindings_of, layout_fault
from kspec.model.declaration import (
    ElementwiseDeclaration,
    GeneratedDeclaration,
    ReductionDeclaration,
)
from kspec.model.dimensions import GROUPS, core_names
from kspec.model.forms.kinds import REDUCE
from kspec.model.neighbours.windows import Window, common_boundaries
from kspec.model.signature import Param, Signature
from kspec.spec import rules
from kspec.spec.base import BaseSpec, accepted
from kspec.spec.dimensions import dimension_faults, example_faults, index_faults
from kspec.spec.faults import Fault
from kspec.spec.fields import (
    BackwardField,
    IdentityField,
    SignatureField,
    TypesField,
)
from kspec.spec.forms import form_faults, join_of
from kspec.spec.gradients import rules as gradient_rules
from kspec.spec.gradients.sums import recognized_sums
from kspec.spec.neighbours.layers import Term, sum_of
from kspec.spec.neighbours.samples import (
    SampleTable,
    declared_samples,
    is_only_sampled,
    sample_faults,
)
from kspec.spec.neighbours.windows import (
    Adjoint,
    SizesField,
    WindowTable,
    declared_windows,
    is_alone,
    size_fault,
    window_faults,
)
from kspec.spec.raw import RawSpec as RawSpec

_NO_PARAMS = Signature()
# Other keyword arguments of elementwise calls, and names of parameters behind them.
_CHECK_KEYWORDS = ("sanitize", "order", "timeout", "args", "options", "self")
_ELEMENT_ORDER = frozenset({"i", "_ind"})
_ELEMENTS = frozenset({"i", "a", "b"})  # of an operation, and of a reduce expression
_INDICES = frozenset({"_J", "_i", "_j", "_segment"})
_COUNTS = frozenset({"_in_ind", "_out_ind"})
_REDUCTION_ORDER = _INDICES | _COUNTS
# An indexer that is asked for its size only, and what may ask one for more.
_IN_SIZE, _OUT_SIZE = ((name, ".", "size", "(", ")") for name in ("_in_ind", "_out_ind"))
_MORE = frozenset({(".", "get"), (".", "set"), (".", "ndim"), ("::", "ndim")})
# How many elements each output has, which is the same for any number of outputs: in brackets of
# its own, for what stands on its left would be divided twice.
_RATIO = ("(", *_IN_SIZE, "/", *_OUT_SIZE, ")")


class _GeneratedSpec(BaseSpec):
    """Base of elementwise and reduction specs: signatures and types."""

    fragment_fields: ClassVar[tuple[str, ...]]

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
        if self.backward is not None and accepted(info, "backward"):
            yield from gradient_rules.backward_fits(self, self.backward, self.declaration().scalars)

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
            if name in _ELEMENTS or rules.is_generated(self.kind, name)
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


class ElementwiseSpec(_GeneratedSpec):
    """A kernel that computes every element by itself."""

    kind = "elementwise"
    fragment_fields = ("loop_prep", "operation", "after_loop")

    operation: str = Field(description="CUDA C++ statements for one element.")
    loop_prep: str = Field("", description="Statements before a thread's loop over elements.")
    after_loop: str = Field("", description="Statements after a thread's loop over elements.")
    no_return: StrictBool = Field(False, description="Return None instead of the outputs.")
    return_tuple: StrictBool = Field(False, description="Return a tuple also for one output.")
    windows: dict[str, WindowTable] = Field(
        {},
        description="Inputs that the operation reads at offsets: { u = { reach = [1, 1], ... } }.",
    )
    samples: dict[str, SampleTable] = Field(
        {},
        description="Raw or windowed inputs that the operation reads between their elements: "
        "{ x = { order = 1, boundary = 'nearest' } }.",
    )
    threads: Literal["thread", "warp", "block"] = Field(
        "thread", description="Who has an item of core dimensions: one thread, a warp or a block."
    )
    _forward: str = PrivateAttr("")
    _adjoint: Adjoint | None = PrivateAttr(None)

    @property
    def forward(self) -> str:
        """The kernel whose `backward` table made this one; empty for all that are written."""
        return self._forward

    def declare_forward(self, name: str) -> None:
        """Say whose `backward` table made this spec."""
        self._forward = name

    @property
    def adjoint(self) -> Adjoint | None:
        """Forward kernel whose gradient this one gathers; None for all others."""
        return self._adjoint

    def declare_adjoint(self, param: Param, window: Window, outputs: Signature) -> None:
        """Say that the operation is that of the forward kernel, whose gradient is gathered."""
        self._adjoint = Adjoint(param, window, outputs)

    def window_of(self, name: str) -> Window:
        """Return the declared window of an input."""
        return next(one for one in self.declaration().windows if one.param == name)

    @property
    def is_ordered(self) -> bool:
        """Whether the operation depends on where an element is."""
        return self.declaration().ordered

    def declaration(self) -> ElementwiseDeclaration:
        """Return the declaration for callers of this spec."""
        outside = identifiers(self.loop_prep, self.after_loop)
        by_thread = self._reads_threads()
        views = self.raw_views
        single = by_thread or self._is_carried() or self._may_return()
        # A helper of the preamble, or a reference, hides whose address an atomic function takes.
        atomic = any("atomic" in word for word in identifiers(self.operation, self.preamble))
        return ElementwiseDeclaration(
            self.name,
            self._with_axes(self.inputs),
            self._with_axes(self.outputs),
            self.doc,
            reduce_dims=self.reduce_dims,
            ordered=by_thread or bool(views) or not self.words.isdisjoint(_ELEMENT_ORDER),
            no_return=self.no_return,
            return_tuple=self.return_tuple,
            raw_views=views,
            scalars=tuple(
                param.name
                for param in self.inputs
                if param.name in outside and not param.raw and not param.non_const
            ),
            in_place=single or atomic or bool(views) or any(map(self._is_in_place, self.params)),
            single=single,
            counts=self._counts(),
            backward=self.backward_kernel,
            numbers=self.numbers,
            forward=self.forward,
            windows=declared_windows(
                self.windows,
                self.sizes,
                self.operation,
                self.macro_texts,
                self.expansion,
                layered=len(self.terms) > 1,
            ),
            sizes=tuple(self.all_sizes.items()),
            adjoint=None if self._adjoint is None else self._adjoint.window,
            samples=declared_samples(self.samples, self.windows, self.operation, *self.macro_texts),
            threads=GROUPS[self.threads],
        )

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Boundaries of windows and samples that calls may choose."""
        declared = [window.boundary for window in self.windows.values()]
        declared += [] if self._adjoint is None else [self._adjoint.window.boundaries]
        # A sample without a choice keeps its boundary.
        sampled = [sample.boundary for sample in self.samples.values() if sample.boundary]
        declared += [one for one in sampled if len(one) > 1 or not declared]
        return common_boundaries(declared)

    @property
    def windows_alone(self) -> frozenset[str]:
        """The windowed inputs that the operation, or a macro, mentions without offsets."""
        texts = (self.operation, *self.macro_texts)
        names = [*self.windows, *([] if self._adjoint is None else [self._adjoint.param.name])]
        return frozenset(name for name in names if any(is_alone(name, text) for text in texts))

    @property
    def terms(self) -> tuple[tuple[Term, ...], ...]:
        """The terms of an operation that is a sum, layer by layer; none of another one."""
        operands = [param.name for param in self.params if not param.raw]
        names = [*self.windows, *self.outputs.names]
        around = self.loop_prep.strip() or self.after_loop.strip()
        if self.samples or self._adjoint or around or operands != names or len(names) != 2:
            return ()
        # The option says how products are added.
        if any("fmad" in option for option in self.options):
            return ()
        if not self.words.isdisjoint(_ELEMENT_ORDER):
            return ()
        window, output = names
        reach = self.windows[window].reach
        return sum_of(self.operation, window, output, reach, self.expansion)

    @property
    def expansion(self) -> Expansion:
        """The macros that may stand in the operation."""
        texts = self.preamble, self.loop_prep, self.operation
        variables = (*self.params.names, *self.placeholders, *_ELEMENT_ORDER)
        return Expansion.of(*texts, options=self.options, variables=variables)

    def _reads_threads(self) -> bool:
        """Whether it matters which thread has an element; threads that share items may ask."""
        texts = (*self.fragments.values(), self.preamble, *self.macros)
        return self.threads == "thread" and reads_threads(*texts)

    def _may_return(self) -> bool:
        return mentions({"return"}, self.operation, *self.macro_texts)

    def _is_carried(self) -> bool:
        """Whether it matters which elements a thread has before and after one."""
        if self.after_loop.strip():
            return True  # runs once a thread, and may see what all its elements have left
        known = {*self.params.names, *self.placeholders, *_ELEMENT_ORDER}
        names = declared_names(self.loop_prep) - known
        addresses = declared_addresses(self.loop_prep)
        return changes(names, self.operation, self.expansion, addresses)

    def _counts(self) -> bool:
        """Whether ``n`` is the number of elements: not where it is a name of the user's."""
        own = (
            *(*self.params.names, *self.placeholders, *self.all_sizes),
            *preamble_names(self.preamble),
        )
        macros = (preamble_names(text) for text in self.macro_texts)
        return (
            "n" in self.words
            and "n" not in own
            and not any("n" in names for names in macros)
            and not declares_variable("n", self.loop_prep)
        )

    def _is_in_place(self, param: Param) -> bool:
        """Whether the operation needs a parameter's memory, not only its element."""
        texts = (self.operation, *self.macro_texts)
        if param.raw:
            sampled = param.name in self.samples
            return not sampled or not is_only_sampled(param.name, self.loop_prep, *texts)
        written = param.non_const or param in self.outputs.params
        return written and takes_address(param.name, "\n".join(texts))

    def _faults(self, info: ValidationInfo) -> Iterator[Fault]:
        yield from super()._faults(info)
        written = any(param.non_const for param in self.inputs)
        missing = "outputs" not in self.model_fields_set and accepted(info, "inputs", "outputs")
        if missing and not written:
            yield Fault((), "missing key 'outputs'; a kernel that has none says outputs = ''")
        if (info.context or {}).get("folder") is not None:
            # In a file it was forgotten: outputs would keep what is in their memory.
            yield from rules.not_empty(operation=self.operation)
        yield from rules.raw_views_exist(self.params, self.fragments)
        if accepted(info, "inputs", "outputs", "windows", "sizes", "samples"):
            yield from self._window_faults()
        fragments = {"preamble": self.preamble, "operation": self.operation}
        fragments |= rules.around_the_loop(self.loop_prep, self.after_loop)
        yield from rules.balanced(fragments, self.preamble, self.options)

    def _window_faults(self) -> Iterator[Fault]:
        yield from self._size_faults({"operation": self.operation})
        yield from window_faults(
            self.windows, self.sizes, self.inputs, self.operation, self.samples
        )
        yield from sample_faults(
            self.samples, self.windows, self.sizes, self.inputs, self.operation, self.macro_texts
        )
        for field in ("inputs", "outputs") if self.windows or self.samples else ():
            if "boundary" in getattr(self, field).names:
                message = "'boundary' is a keyword argument of every kernel with windows or samples"
                yield Fault((field,), f"{message}; choose another name", word="boundary")
        if self.has_core:
            for field in ("windows", "samples"):
                if getattr(self, field):
                    message = "kernels with core dimensions have no windows or samples"
                    yield Fault((field,), message, at_key=True)
        if self.threads != "thread" and not self.has_core:
            message = f"{self.threads!r} is for kernels with core dimensions, such as 'T A[n, n]'"
            yield Fault(("threads",), message)
        if self.windows or self.has_core:
            kind = "windows" if self.windows else "core dimensions"
            yield from self._view_faults()
            yield from self._faults_of_threads(f"kernels with {kind}")

    def _faults_of_threads(self, kernels: str) -> Iterator[Fault]:
        """Yield the faults of fields that need the threads of other kernels."""
        if self._reads_threads():
            message = f"{kernels} cannot read the thread's index"
            words = [word for word in identifiers(self.operation) if reads_threads(word)]
            yield Fault(("operation",), message, word=words[0] if words else "")
        elif self._is_carried():
            field = "after_loop" if self.after_loop.strip() else "loop_prep"
            yield Fault((field,), f"{kernels} cannot carry values between elements")


class ReductionSpec(_GeneratedSpec):
    """A kernel that folds the elements along axes into one."""

    kind = "reduction"
    fragment_fields = ("identity", "map", "reduce", "post_map", "reduce_type")

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
        if accepted(info, "inputs", "outputs", "sizes"):
            yield from self._size_faults({"map": self.map, "post_map": self.post_map})
            yield from self._core_faults()
        if accepted(info, "inputs", "outputs"):
            yield from rules.reduce_type_is_known(
                self.reduce_type, self.placeholders, self.preamble, self.options
            )
            yield from form_faults(self.forms, self.declaration())

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


Spec = ElementwiseSpec | ReductionSpec | RawSpec
MODELS: dict[str, type[Spec]] = {
    "elementwise": ElementwiseSpec,
    "reduction": ReductionSpec,
    "raw": RawSpec,
}
