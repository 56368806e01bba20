"""Base of specs of all kinds: a name, a docstring, an example, and their checks.

`kspec.spec.models` has a model for each kind; `kspec.spec.rules` has the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationInfo,
    model_validator,
)

from kspec.spec import rules
from kspec.spec.faults import Fault, raise_faults
from kspec.spec.fields import (
    ArgumentField,
    AxesField,
    LaunchSizesField,
    NumberField,
    OptionsField,
    ToleranceField,
)


class SpecModel(BaseModel):
    """A frozen table of a spec file."""

    # Only the models that are used are built: each takes 10 ms of a cold start.
    model_config = ConfigDict(
        frozen=True, extra="forbid", str_strip_whitespace=False, defer_build=True
    )


class Example(SpecModel):
    """Call of a kernel in tests and demonstrations: with random arrays of these shapes."""

    shapes: dict[str, tuple[int, ...]] = Field({}, description="Shape of each array argument.")
    scalars: dict[str, NumberField] = Field({}, description="Value of each scalar argument.")
    types: dict[str, str] = Field(
        {}, description="Placeholder to dtype; absent: the first precompiled binding."
    )
    axis: AxesField = Field(None, description="Axes to reduce; absent: all.")
    keepdims: StrictBool = Field(False, description="Keep reduced axes with extent 1.")
    size: int | None = Field(None, ge=0, description="Loop size when every array is raw.")
    boundary: str | None = Field(
        None, description="What lies outside of windowed arrays; absent: the default of each."
    )
    sizes: dict[str, StrictInt] = Field(
        {}, description="Values of integer placeholders; absent: the first precompiled ones."
    )
    grid: LaunchSizesField = Field((), description="Blocks per axis (raw kernels).")
    block: LaunchSizesField = Field((), description="Threads per axis of a block (raw kernels).")
    shared_mem: int = Field(0, ge=0, description="Dynamic shared memory in bytes (raw kernels).")
    args: tuple[ArgumentField, ...] = Field(
        (), description="Arguments in order: names of shapes and scalars, or numbers."
    )
    name_expression: str = Field("", description="Name expression to call; absent: the first.")
    low: float = Field(-1.0, description="Least random value.")
    high: float = Field(1.0, description="Bound of the random values.")
    values: dict[str, str] = Field(
        {},
        description="NumPy expression of a random array that is the argument of its name instead.",
    )
    tolerance: ToleranceField = Field(
        None,
        description="Relative tolerance against the reference, or a table by dtype; absent: usual.",
    )
    special_values: StrictBool = Field(
        True, description="Whether `kspec test` also tries NaN and infinities."
    )
    tune: tuple[dict[str, tuple[int, ...]], ...] = Field(
        (), description="More shapes that `kspec tune` measures: [{ x = [1000000, 100] }]."
    )
    fixed_shapes: StrictBool = Field(
        False, description="Whether `kspec test` keeps to these shapes, axes and sizes."
    )


class Budget(SpecModel):
    """Limits of a kernel: of the compiler's figures, and of its saved reviews."""

    sectors_per_request: StrictFloat | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Most sectors of 32 bytes that a warp's access of global memory touches.",
    )
    conflicts: StrictFloat | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Most passes that bank conflicts of shared memory add to an access.",
    )
    warp_efficiency: StrictFloat | None = Field(
        None,
        gt=0,
        le=32,
        description="Fewest threads that take part in an instruction, of 32, on average.",
    )
    registers: StrictInt | None = Field(None, gt=0, description="Most registers of a thread.")
    spills: StrictInt | None = Field(
        None, ge=0, description="Most bytes of registers that a thread spills to memory."
    )


class BaseSpec(SpecModel):
    """A spec of any kind."""

    kind: ClassVar[str]

    name: str = Field(description="C identifier; in a spec file the key of the table.")
    doc: str = Field("", description="Documentation of the generated Python function.")
    options: OptionsField = Field((), description="Compiler options, such as '-DN=3'.")
    reference: str | None = Field(
        None, description="NumPy expression of the parameters: the oracle of `kspec test`."
    )
    example: Example | None = Field(None, description="How to call it with random arguments.")
    max_registers: StrictInt | None = Field(
        None, gt=0, description="Budget: registers of a thread; a build that needs more fails."
    )
    no_spills: StrictBool = Field(
        False, description="Budget: a build that spills registers to memory fails."
    )
    max_bytes: StrictInt | None = Field(
        None, gt=0, description="Budget: bytes of a kernel's code for one architecture."
    )
    budget: Budget | None = Field(
        None,
        description="Budgets by figure: a build whose compiled kernel or saved reviews exceed one "
        "fails.",
    )

    @property
    def compiler_options(self) -> tuple[str, ...]:
        """The options that the compiler gets."""
        return self.options

    @property
    def size_names(self) -> tuple[str, ...]:
        """Integer placeholders, which calls give by name."""
        return ()

    @property
    def decided_sizes(self) -> tuple[str, ...]:
        """Integer placeholders that the shapes of inputs decide."""
        return ()

    @property
    def boundaries(self) -> tuple[str, ...]:
        """Boundaries of windows that calls may choose."""
        return ()

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        raise_faults(self._faults(info))
        context = info.context or {}
        if context.get("is_written", True) and not context.get("refused"):
            raise_faults(self._faults_of_meaning())
        return self

    def _faults_of_meaning(self) -> Iterator[Fault]:
        """Yield the faults of a spec that is well formed, but cannot be what was meant."""
        yield from ()

    def _faults(self, info: ValidationInfo) -> Iterator[Fault]:
        """Yield the faults of a spec whose fields are valid one by one."""
        yield from rules.kernel_name(self.name)
        yield from rules.printable(self.doc, "doc")
        for index, option in enumerate(self.options):
            yield from rules.one_line(option, "options", index)
        if self.reference is not None:
            yield from rules.is_python_expression(self.reference, "reference")
        if self.example and accepted(info, "example", "windows", "sizes"):
            yield from rules.example_choices_fit(
                self.size_names,
                self.boundaries,
                self.example.sizes,
                self.example.boundary,
                self.decided_sizes,
            )

    def _example_faults(self, arrays: Iterable[str], scalars: Iterable[str]) -> Iterator[Fault]:
        if self.example:
            given = {
                "shapes": tuple(self.example.shapes),
                "scalars": tuple(self.example.scalars),
                "values": tuple(self.example.values),
            }
            yield from rules.example_fits(arrays, scalars, given)
            for name, text in self.example.values.items():
                yield from rules.is_python_expression(text, "example", "values", name)
            yield from rules.example_is_small(self.example.shapes)
            yield from rules.tuned_shapes_fit(self.example.shapes, self.example.tune)


def accepted(info: ValidationInfo, *fields: str) -> bool:
    """Return whether the values of `fields` are the user's, not stand-ins for refused ones."""
    refused: frozenset[str] = (info.context or {}).get("refused", frozenset())
    return refused.isdisjoint(fields)
