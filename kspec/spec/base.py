"""What specs of all kinds share: a name, a docstring, an example, and how they are checked.

`kspec.spec.models` has a spec for each kind; `kspec.spec.rules` has the checks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kspec.spec import rules
from kspec.spec.faults import Fault
from kspec.spec.fields import EXAMPLE, OPTIONAL_TEXT, OPTIONS, TEXT, declared

if TYPE_CHECKING:
    from kspec.spec.tables import Example


@dataclass(frozen=True)
class Check:
    """What is known where a spec is checked.

    Attributes
    ----------
    folder : Path or None
        Folder of the spec file, if there is one.
    given : frozenset of str
        Fields that the user gave.
    refused : frozenset of str
        Fields whose values are stand-ins for what the user gave.
    """

    folder: Path | None = None
    given: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def accepted(self, *fields: str) -> bool:
        """Return whether the values of `fields` are the user's, not stand-ins."""
        return self.refused.isdisjoint(fields)


@dataclass(frozen=True, kw_only=True)
class BaseSpec:
    """A spec of any kind; `kspec.spec.building` makes and checks it."""

    kind: ClassVar[str]

    name: str = declared(TEXT, "C identifier; in a spec file the key of the table.")
    doc: str = declared(TEXT, "Documentation of the generated Python function.", "")
    options: tuple[str, ...] = declared(OPTIONS, "Compiler options, such as '-DN=3'.", ())
    reference: str | None = declared(
        OPTIONAL_TEXT, "NumPy expression of the parameters: the oracle of `kspec demo`.", None
    )
    example: Example | None = declared(EXAMPLE, "How to call it with random arguments.", None)

    @property
    def compiler_options(self) -> tuple[str, ...]:
        """The options that the compiler gets."""
        return self.options

    def fields(self) -> dict[str, Any]:
        """Return every field by name, as `kspec.spec.building.build_spec` takes them."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.init}

    def faults(self, check: Check) -> Iterator[Fault]:
        """Yield what is wrong with the spec although each of its fields is right."""
        yield from rules.kernel_name(self.name)
        yield from rules.reference_is_expression(self.reference)

    def _example_faults(self, arrays: Iterable[str], scalars: Iterable[str]) -> Iterator[Fault]:
        if self.example:
            given = {"shapes": tuple(self.example.shapes), "scalars": tuple(self.example.scalars)}
            yield from rules.example_fits(arrays, scalars, given)
