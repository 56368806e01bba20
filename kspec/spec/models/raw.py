"""Specs of raw kernels: CUDA C++ of the user's, its parameters, and how it is launched.

`kspec.spec.models` has the specs of generated kernels, and `MODELS` of all kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field, PrivateAttr, StrictBool, ValidationInfo

from kspec.files import resolved
from kspec.limits import SOURCE_BYTES
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.expressions import shape_parts
from kspec.model.raw.launch_rules import FIXABLE, LaunchRules, fixed_by_default
from kspec.model.raw.template import RawTemplate
from kspec.spec import rules
from kspec.spec.base import BaseSpec, accepted
from kspec.spec.faults import Fault
from kspec.spec.fields import (
    CParamsField,
    DefaultsField,
    ExpressionField,
    ExtentsField,
    FixedField,
    KernelNameField,
    LaunchSizesField,
    NamesField,
    ReturnsField,
)
from kspec.spec.models import raw_rules


class RawSpec(BaseSpec):
    """A kernel written as CUDA C++, in the spec or in a file beside it."""

    kind = "raw"

    source: str = Field("", description="A .cu file in the folder of the spec file.")
    code: str = Field("", description="The CUDA C++ itself, instead of `source`.")
    name_expressions: tuple[str, ...] = Field(
        (), description="Kernels to compile, such as 'f<float>'; absent: the kernel's name."
    )
    params: CParamsField = Field(
        None, description="Declared C parameters, such as 'const float* x'; absent: unchecked."
    )
    template: NamesField = Field(
        (),
        description="Parameters of the C++ template in their order: placeholders, and integers "
        "that calls give by name, such as ['T', 'TILE']; absent: the placeholders.",
    )
    grid: ExtentsField = Field(
        None, description="Blocks per axis where a call does not say: 'ceil_div(n, block.x)'."
    )
    block: ExtentsField = Field(
        None, description="Threads per axis of a block, like `grid`: '256'."
    )
    shared_mem: ExpressionField = Field(
        "", description="Dynamic shared memory in bytes where a call does not say: 'block.x * 4'."
    )
    defaults: DefaultsField = Field(
        {}, description="What parameters are that a call leaves out: { n = 'x.size' }."
    )
    returns: ReturnsField = Field(
        {},
        description="Shapes of arrays that are allocated and returned where a call leaves them "
        "out: { c = '(a.shape[0], b.shape[1])' }.",
    )
    fixed: FixedField = Field(
        None,
        description="Which of grid, block and shared_mem calls cannot choose: ['block']; absent: "
        "a block that the grid does not follow.",
        json_schema_extra={"items": {"enum": [*FIXABLE]}},
    )
    cooperative: StrictBool = Field(
        False, description="Launch so that all blocks are resident and can wait for each other."
    )
    cluster: LaunchSizesField = Field((), description="Blocks of a thread-block cluster, per axis.")
    pdl: StrictBool = Field(
        False, description="Programmatic dependent launch: may begin before the kernel in front."
    )
    backward: KernelNameField = Field(
        None, description="The kernel that computes the gradients of this one."
    )
    _text: str = PrivateAttr("")
    _structs: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def size_names(self) -> tuple[str, ...]:
        """The integers of the template."""
        return RawTemplate.of(self.template, self.params or ()).values

    @property
    def optional(self) -> frozenset[str]:
        """Parameters that calls may leave out: numbers, returned arrays and null pointers."""
        nullable = (param.name for param in self.params or () if param.nullable)
        return frozenset((*self.defaults, *self.returns, *nullable))

    @property
    def backward_kernel(self) -> str:
        """The kernel that computes the gradients."""
        return self.backward or ""

    @property
    def text(self) -> str:
        """The CUDA C++, wherever it was given."""
        return self._text

    @property
    def structs(self) -> dict[str, str]:
        """The structs of the spec file that parameters have, with their dtypes."""
        return self._structs

    def declaration(self) -> RawDeclaration:
        """Return the declaration for callers of this spec."""
        expressions = self.name_expressions or (self.name,)
        return RawDeclaration(
            self.name,
            expressions,
            self.params,
            self.doc,
            self.launch_rules,
            tuple(self.structs.items()),
            self.cooperative,
            self.backward_kernel,
        )

    @property
    def launch_rules(self) -> LaunchRules:
        """Grid, block, shared memory and parameters where a call does not say."""
        grid, block = _extents(self.grid), _extents(self.block)
        fixed = self.fixed
        if fixed is None:
            fixed = fixed_by_default(grid, block, self.size_names)
        return LaunchRules(
            tuple(map(_in_one_line, grid)),
            tuple(map(_in_one_line, block)),
            _in_one_line(self.shared_mem),
            tuple(
                (name, _in_one_line(one) if isinstance(one, str) else one)
                for name, one in self.defaults.items()
            ),
            tuple((name, _shape(one)) for name, one in self.returns.items()),
            tuple(one for one in FIXABLE if one in fixed),
            self.template,
        )

    def bindings(self) -> rules.Bindings:
        """Return one empty binding: name expressions say what is compiled."""
        return ((),)

    def _faults(self, info: ValidationInfo) -> Iterator[Fault]:
        yield from super()._faults(info)
        self._text = self.code
        types = [param.type for param in self.params or ()]
        structs: Mapping[str, str] = (info.context or {}).get("structs", {})
        self._structs = {name: dtype for name, dtype in structs.items() if name in types}
        if bool(self.source) == bool(self.code.strip()):
            if accepted(info, "source", "code"):
                yield Fault((), "give either 'source' (a .cu file) or 'code' (CUDA C++)")
        elif self.source:
            yield from self._read_source((info.context or {}).get("folder"))
        included = any(option.startswith(("-I", "-D", "-include")) for option in self.options)
        named = accepted(info, "name", "name_expressions")
        if named and not included and accepted(info, "options"):
            yield from rules.kernels_exist(self._text, self.name_expressions or (self.name,))
        for index, expression in enumerate(self.name_expressions):
            if not expression.strip():
                yield Fault(("name_expressions", index), "must not be empty", offset=0)
            yield from rules.one_line(expression, "name_expressions", index)
        if len(self.cluster) > 3:
            yield Fault(("cluster", 3), "a cluster has three axes at most")
        for index, blocks in enumerate(self.cluster):
            if blocks < 1:
                yield Fault(("cluster", index), f"must be 1 or more, not {blocks}")
        names = [param.name for param in self.params or ()]
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            yield Fault(("params",), f"two parameters are called {name!r}", word=name)
        yield from self._call_faults(info, named)

    def _call_faults(self, info: ValidationInfo, named: bool) -> Iterator[Fault]:
        """Check the template, the launch and the returned arrays; `named`: so are the kernels."""
        params = self.params or ()
        names = [param.name for param in params]
        declared = accepted(info, "params")
        # Names that are wrong are integers nevertheless, so that expressions know them.
        template = RawTemplate.of(self.template, params)
        if declared and accepted(info, "template"):
            faults = tuple(raw_rules.template_fits(self.template, self.params))
            yield from faults
            if named and not faults:
                expressions = self.name_expressions or (self.name,)
                yield from raw_rules.instances_fit(template, expressions)
        if self.params is not None:
            yield from self._example_faults(names, names)
        texts = {"grid": self.grid, "block": self.block, "shared_mem": self.shared_mem or None}
        known = {field: text for field, text in texts.items() if accepted(info, field)}
        if declared and accepted(info, "template"):
            yield from raw_rules.launch_rules_fit(
                self.params, known, self.defaults, self.returns, template
            )
        if declared and self.params is not None:
            yield from raw_rules.returns_fit(params, self.returns, self._structs)
        yield from raw_rules.fixed_fits(self.fixed or (), known)
        values = template.known(self.name_expressions)
        yield from raw_rules.values_fit(values, self.defaults, "defaults")
        if self.example:
            yield from raw_rules.values_fit(values, self.example.sizes, "example", "sizes")
            for field in self.launch_rules.fixed:
                if getattr(self.example, field, None):
                    message = f"{field!r} is fixed by the spec; leave it out"
                    if self.fixed is None:
                        message += ", or write fixed = [] if the code takes any block"
                    yield Fault(("example", field), message, at_key=True)

    def _read_source(self, folder: Path | None) -> Iterator[Fault]:
        if folder is None:
            yield Fault(("source",), "only a spec file can name a source file; pass 'code' here")
            return
        problems = tuple(rules.plain_path(self.source, "source"))
        if problems:
            yield from problems
            return
        path = resolved(folder / self.source)
        if not path.is_relative_to(resolved(folder)):
            yield Fault(("source",), f"{self.source!r} is outside the folder of the spec")
        elif not path.is_file():
            yield Fault(("source",), f"there is no file {self.source!r} beside the spec")
        elif path.stat().st_size > SOURCE_BYTES:
            yield Fault(("source",), f"{self.source!r} has more than {SOURCE_BYTES} bytes")
        else:
            try:
                self._text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                yield Fault(("source",), f"cannot read {self.source!r}: {error}")


def _shape(written: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the expressions of a shape, one for each axis."""
    parts = (text for _, text in shape_parts(written)) if isinstance(written, str) else written
    return tuple(map(_in_one_line, parts))


def _extents(written: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the expressions of a grid or block, one for each axis."""
    return (written,) if isinstance(written, str) else written or ()


def _in_one_line(expression: str) -> str:
    return " ".join(expression.split())
