"""Budgets of compiled kernels, from their specs: images in, the kernels above their budgets out.

::

    specs/norms.toml:12:1: error: l2norm<float, kspec::Lines> takes 40 registers on sm_90;
    max_registers is 32

The figures are those of `kspec.lock`; PTX has none, so a budget says nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kspec.build.images import Built
from kspec.build.plan import BuildPlan, Unit
from kspec.diagnostics import Diagnostic
from kspec.model.manifest import ImageEntry
from kspec.render import specializations
from kspec.spec.loader import SpecFileError
from kspec.spec.models import Spec


class BudgetError(SpecFileError):
    """Kernels take more than their specs allow; the message has every specialization."""


@dataclass(frozen=True)
class _Budget:
    """A field of specs that limits a figure."""

    field: str
    verb: str
    unit: str
    figure: str


_BUDGETS = (
    _Budget("max_registers", "takes", "registers", "registers"),
    _Budget("no_spills", "spills", "bytes of registers", "spill_bytes"),
    _Budget("max_bytes", "has", "bytes of code", "code_bytes"),
)


def check_budgets(plan: BuildPlan, images: Mapping[str, Built]) -> None:
    """Raise `BudgetError` if kernels take more than their specs allow.

    Parameters
    ----------
    plan : BuildPlan
        What was built.
    images : mapping of str to Built
        The images by stem.
    """
    problems = [
        problem
        for unit in plan.units
        if unit.stem in images
        for spec in unit.spec_file.specs
        for problem in _problems(plan, unit, spec, images[unit.stem].entry)
    ]
    if problems:
        raise BudgetError(problems)


def _problems(plan: BuildPlan, unit: Unit, spec: Spec, entry: ImageEntry) -> Iterator[Diagnostic]:
    names = dict.fromkeys(one.name_expression for one in specializations(spec))
    for budget in _BUDGETS:
        limit: int | bool | None = getattr(spec, budget.field)
        if limit is None or limit is False:
            continue
        most = 0 if limit is True else limit
        said = "allows none" if limit is True else f"is {limit}"
        for name in names:
            found = {
                arch: getattr(figures[name], budget.figure)
                for arch, figures in entry.figures.items()
                if name in figures
            }
            above = [(number, arch) for arch, number in found.items() if number > most]
            if above:
                first, *others = above
                places = [f"{first[0]} {budget.unit} on {first[1]}"]
                places += [f"{number} on {arch}" for number, arch in others]
                message = f"{name} {budget.verb} {', '.join(places)}; {budget.field} {said}"
                yield _located(plan, unit, spec.name, budget.field, message)


def _located(plan: BuildPlan, unit: Unit, kernel: str, field: str, message: str) -> Diagnostic:
    """Return a problem that points at a field of a kernel's table."""
    file = unit.spec_file
    line = file.lines[kernel, field]
    text = (plan.settings.project / file.path).read_text(encoding="utf-8")
    source = text.splitlines()[line - 1]
    column = max(source.find(field), 0) + 1
    return Diagnostic("error", message, file.path, line, column, len(field), source, code=field)
