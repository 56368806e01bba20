"""Specs of elementwise kernels, with windows and samples of their inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field, PrivateAttr, StrictBool, ValidationInfo

from kspec.cpp.flow import changes, declared_addresses, declared_names, reads_threads
from kspec.cpp.fragments import identifiers, mentions, takes_address
from kspec.cpp.preambles import declares_variable, preamble_names
from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.dimensions import GROUPS
from kspec.model.neighbours.windows import Window, common_boundaries
from kspec.model.signature import Param, Signature
from kspec.spec import rules
from kspec.spec.base import accepted
from kspec.spec.faults import Fault
from kspec.spec.models.generated import GeneratedSpec
from kspec.spec.neighbours.layers import Term, sum_of
from kspec.spec.neighbours.samples import (
    SampleTable,
    declared_samples,
    is_only_sampled,
    sample_faults,
)
from kspec.spec.neighbours.windows import (
    Adjoint,
    WindowTable,
    declared_windows,
    is_alone,
    window_faults,
)
from kspec.spec.outputs import never_assigned, updated

_ELEMENT_ORDER = frozenset({"i", "_ind"})


class ElementwiseSpec(GeneratedSpec):
    """A kernel that computes every element by itself."""

    kind = "elementwise"
    fragment_fields = ("loop_prep", "operation", "after_loop")
    element_names = _ELEMENT_ORDER

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
            updates=self._updates(),
            subscripts=self._has_subscripts(),
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

    def _updates(self) -> tuple[str, ...]:
        """Outputs that begin with old values; an adjoint's, and core dimensions, begin as zeros."""
        if self._adjoint is not None or self.has_core:
            return ()
        return updated(self.operation, self.seen_outputs, self.expansion)

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
        # What follows an operation stands behind an empty line.
        around = {name: text for name, text in self.fragments.items() if name != "operation"}
        yield from rules.ends_its_line(around | {"preamble": self.preamble})
        if accepted(info, "inputs", "outputs", "windows", "sizes", "samples"):
            yield from self._window_faults()
        fragments = {"preamble": self.preamble, "operation": self.operation}
        fragments |= rules.around_the_loop(self.loop_prep, self.after_loop)
        yield from rules.balanced(fragments, self.preamble, self.options)

    def _faults_of_meaning(self) -> Iterator[Fault]:
        yield from super()._faults_of_meaning()
        if not self.has_core:  # whose outputs begin as zeros
            outputs, expansion = self.seen_outputs, self.expansion
            yield from never_assigned("operation", self.operation, outputs, expansion)

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
