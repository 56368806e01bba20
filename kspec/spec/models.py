"""Specs: declared kernels as frozen data.

>>> from kspec.spec.building import build_spec
>>> spec = build_spec(ElementwiseSpec, name="sq", inputs="T x", outputs="T y",
...                   operation="y = x * x", types={"T": ["f4", "f8"]})
>>> spec.bindings()
((('T', 'float32'),), (('T', 'float64'),))

In go the tables of a spec file or the arguments of the Python constructors, out comes a spec
that the renderer can trust.  `kspec.spec.building` makes them, and a `SpecError` of a user's
mistakes; `kspec.spec.tables` makes Pydantic models of the classes here, `kspec.spec.loader` reads
files of specs, `kspec.render` turns them into source.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from kspec.declaration import ElementwiseDeclaration, RawDeclaration, ReductionDeclaration
from kspec.signature import CParam, Param, Signature
from kspec.spec import rules
from kspec.spec.base import BaseSpec, Check
from kspec.spec.faults import Fault
from kspec.spec.fields import (
    C_PARAMS,
    FLAG,
    IDENTITY,
    SIGNATURE,
    TEXT,
    TEXTS,
    TYPES,
    declared,
)
from kspec.spec.fragments import identifiers, macros, mentions, takes_address
from kspec.spec.macros import split_macros

_NO_PARAMS = Signature()
_ELEMENT_ORDER = frozenset({"i", "_ind"})
_REDUCTION_ORDER = frozenset({"_J", "_i", "_in_ind", "_out_ind"})


@dataclass(frozen=True, kw_only=True)
class _GeneratedSpec(BaseSpec):
    """What elementwise and reduction specs share: signatures and types."""

    fragment_fields: ClassVar[tuple[str, ...]]

    inputs: Signature = declared(
        SIGNATURE, "Parameters read: 'T x, raw T y', or a list with one per string.", _NO_PARAMS
    )
    outputs: Signature = declared(SIGNATURE, "Parameters written, like `inputs`.", _NO_PARAMS)
    preamble: str = declared(TEXT, "CUDA C++ before the kernel: helpers, macros.", "")
    reduce_dims: bool = declared(
        FLAG, "Merge axes where possible; false: _ind has those of the arguments.", True
    )
    types: dict[str, tuple[str, ...]] | tuple[dict[str, str], ...] = declared(
        TYPES, "What is precompiled: placeholder to dtypes, or a list of combinations.", {}
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
        return frozenset(identifiers(*self.fragments.values(), *self._macro_texts))

    @property
    def _macro_texts(self) -> tuple[str, ...]:
        return macros(self.preamble), *self.macros

    @property
    def params(self) -> Signature:
        """Inputs, then outputs."""
        return Signature(self.inputs.params + self.outputs.params)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Distinct type placeholders, inputs first."""
        return self.params.placeholders

    def bindings(self) -> rules.Bindings:
        """Return the bindings to precompile, each in the order of `placeholders`.

        A spec without placeholders has one, which is empty; a spec with placeholders and no
        `types` has none and is compiled lazily only.
        """
        if not self.placeholders:
            return ((),)
        if isinstance(self.types, dict):
            choices = [self.types.get(letter, ()) for letter in self.placeholders]
            rows: Iterable[Iterable[str]] = itertools.product(*choices)
        else:
            rows = ([row[letter] for letter in self.placeholders] for row in self.types)
        return tuple(dict.fromkeys(tuple(zip(self.placeholders, row, strict=True)) for row in rows))

    def faults(self, check: Check) -> Iterator[Fault]:
        """Yield what is wrong with the spec although each of its fields is right."""
        yield from super().faults(check)
        yield from rules.reserved_names(self.kind, self.inputs, self.outputs)
        yield from rules.clashing_names(self.name, self.inputs, self.outputs)
        if not check.accepted("inputs", "outputs"):
            return
        type_faults = tuple(rules.types_fit(self.placeholders, self.types))
        yield from type_faults
        if not type_faults:
            yield from rules.preamble_is_generic(self.preamble, self.placeholders, self.bindings())
        yield from self._example_faults(self.params.names, self.inputs.names)


@dataclass(frozen=True, kw_only=True)
class ElementwiseSpec(_GeneratedSpec):
    """A kernel that computes every element by itself."""

    kind = "elementwise"
    fragment_fields = ("loop_prep", "operation", "after_loop")

    operation: str = declared(TEXT, "CUDA C++ statements for one element.")
    loop_prep: str = declared(TEXT, "Statements before a thread's loop over elements.", "")
    after_loop: str = declared(TEXT, "Statements after a thread's loop over elements.", "")
    no_return: bool = declared(FLAG, "Return None instead of the outputs.", False)
    return_tuple: bool = declared(FLAG, "Return a tuple also for one output.", False)

    def declaration(self) -> ElementwiseDeclaration:
        """Return what a caller must know of this spec."""
        outside = identifiers(self.loop_prep, self.after_loop)
        views = tuple(
            param.name
            for param in self.params
            if not param.raw and f"_raw_{param.name}" in self.words
        )
        leaves = mentions({"return"}, self.operation, *self._macro_texts)
        # A helper of the preamble, or a reference, hides whose address an atomic function takes.
        atomic = any("atomic" in word for word in identifiers(self.operation, self.preamble))
        return ElementwiseDeclaration(
            self.name,
            self.inputs,
            self.outputs,
            self.doc,
            reduce_dims=self.reduce_dims,
            ordered=bool(views) or not self.words.isdisjoint(_ELEMENT_ORDER),
            no_return=self.no_return,
            return_tuple=self.return_tuple,
            raw_views=views,
            scalars=tuple(
                param.name
                for param in self.inputs
                if param.name in outside and not param.raw and not param.non_const
            ),
            in_place=leaves or atomic or bool(views) or any(map(self._is_in_place, self.params)),
            leaves=leaves,
        )

    def _is_in_place(self, param: Param) -> bool:
        """Whether the operation needs a parameter's memory, not only its element."""
        written = param.non_const or param in self.outputs.params
        text = "\n".join((self.operation, *self._macro_texts))
        return param.raw or (written and takes_address(param.name, text))

    def faults(self, check: Check) -> Iterator[Fault]:
        """Yield what is wrong with the spec although each of its fields is right."""
        yield from super().faults(check)
        written = any(param.non_const for param in self.inputs)
        missing = "outputs" not in check.given and check.accepted("inputs", "outputs")
        if missing and not written:
            yield Fault((), "missing key 'outputs'; a kernel that has none says outputs = ''")
        yield from rules.not_empty(operation=self.operation)
        yield from rules.raw_views_exist(self.params, self.fragments)
        fragments = {"preamble": self.preamble, "operation": self.operation}
        fragments |= rules.around_the_loop(self.loop_prep, self.after_loop)
        yield from rules.balanced(fragments, self.preamble, self.options)


@dataclass(frozen=True, kw_only=True)
class ReductionSpec(_GeneratedSpec):
    """A kernel that folds the elements along axes into one."""

    kind = "reduction"
    fragment_fields = ("identity", "map", "reduce", "post_map", "reduce_type")

    map: str = declared(TEXT, "Expression of the inputs for one element.")
    reduce: str = declared(TEXT, "Expression that folds 'a' and 'b' into one.")
    post_map: str = declared(TEXT, "Expression that assigns the outputs from 'a'.")
    identity: str | None = declared(
        IDENTITY, "Start of the fold and value of reducing nothing; absent: no such value.", None
    )
    reduce_type: str = declared(
        TEXT, "C++ type or placeholder of the accumulator; absent: by the first output.", ""
    )

    def declaration(self) -> ReductionDeclaration:
        """Return what a caller must know of this spec."""
        folded = set(identifiers(self.reduce, self.post_map)) - {"a", "b"}
        return ReductionDeclaration(
            self.name,
            self.inputs,
            self.outputs,
            self.doc,
            reduce_dims=self.reduce_dims,
            has_identity=self.identity is not None,
            ordered=not self.words.isdisjoint(_REDUCTION_ORDER),
            scalars=tuple(p.name for p in self.inputs if not p.raw and p.name in folded),
            accumulator=self.reduce_type,
        )

    def faults(self, check: Check) -> Iterator[Fault]:
        """Yield what is wrong with the spec although each of its fields is right."""
        yield from super().faults(check)
        if not self.outputs.params and check.accepted("outputs"):
            yield Fault(("outputs",), "a reduction needs at least one output, such as 'T y'")
        for param in self.outputs:
            if param.raw:
                message = f"output {param.name!r} of a reduction can not be raw"
                yield Fault(("outputs",), message, word="raw")
        fragments = {"map": self.map, "reduce": self.reduce, "post_map": self.post_map}
        yield from rules.not_empty(**fragments)
        yield from rules.no_raw_views(self.params, fragments)
        yield from rules.expressions(map=self.map, reduce=self.reduce, identity=self.identity or "")
        fragments |= {"preamble": self.preamble, "identity": self.identity or ""}
        yield from rules.balanced(fragments, self.preamble, self.options)
        if check.accepted("inputs", "outputs"):
            yield from rules.reduce_type_is_known(
                self.reduce_type, self.placeholders, self.preamble, self.options
            )


@dataclass(frozen=True, kw_only=True)
class RawSpec(BaseSpec):
    """A kernel written as CUDA C++, in the spec or in a file beside it."""

    kind = "raw"

    source: str = declared(TEXT, "A .cu file in the folder of the spec file.", "")
    code: str = declared(TEXT, "The CUDA C++ itself, instead of `source`.", "")
    name_expressions: tuple[str, ...] = declared(
        TEXTS, "Kernels to compile, such as 'f<float>'; absent: the kernel's name.", ()
    )
    params: tuple[CParam, ...] | None = declared(
        C_PARAMS, "Declared C parameters, such as 'const float* x'; absent: unchecked.", None
    )
    _text: str = field(default="", init=False, repr=False)

    @property
    def text(self) -> str:
        """The CUDA C++, wherever it was given."""
        return self._text

    def declaration(self) -> RawDeclaration:
        """Return what a caller must know of this spec."""
        expressions = self.name_expressions or (self.name,)
        return RawDeclaration(self.name, expressions, self.params, self.doc)

    def bindings(self) -> rules.Bindings:
        """Return one empty binding: name expressions say what is compiled."""
        return ((),)

    def faults(self, check: Check) -> Iterator[Fault]:
        """Yield what is wrong with the spec although each of its fields is right."""
        yield from super().faults(check)
        self._read(self.code)
        if bool(self.source) == bool(self.code.strip()):
            if check.accepted("source", "code"):
                yield Fault((), "give either 'source' (a .cu file) or 'code' (CUDA C++)")
        elif self.source:
            yield from self._read_source(check.folder)
        included = any(option.startswith(("-I", "-D", "-include")) for option in self.options)
        named = check.accepted("name", "name_expressions")
        if named and not included and check.accepted("options"):
            yield from rules.kernels_exist(self._text, self.name_expressions or (self.name,))
        for index, expression in enumerate(self.name_expressions):
            if not expression.strip():
                yield Fault(("name_expressions", index), "must not be empty", offset=0)
        names = [param.name for param in self.params or ()]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            yield Fault(("params",), f"two parameters are called {name!r}", word=name)
        letters = dict.fromkeys(p.type for p in self.params or () if len(p.type) == 1)
        if named:
            yield from rules.instances_fit(tuple(letters), self.name_expressions or (self.name,))
        if self.params is not None:
            yield from self._example_faults(names, names)

    def _read(self, text: str) -> None:
        object.__setattr__(self, "_text", text)  # once, while the spec is checked

    def _read_source(self, folder: Path | None) -> Iterator[Fault]:
        if folder is None:
            yield Fault(("source",), "only a spec file can name a source file; pass 'code' here")
            return
        path = (folder / self.source).resolve()
        if not path.is_relative_to(folder.resolve()):
            yield Fault(("source",), f"{self.source!r} is outside the folder of the spec")
        elif not path.is_file():
            yield Fault(("source",), f"there is no file {self.source!r} beside the spec")
        else:
            try:
                self._read(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                yield Fault(("source",), f"can not read {self.source!r}: {error}")


Spec = ElementwiseSpec | ReductionSpec | RawSpec
MODELS: dict[str, type[Spec]] = {
    "elementwise": ElementwiseSpec,
    "reduction": ReductionSpec,
    "raw": RawSpec,
}
