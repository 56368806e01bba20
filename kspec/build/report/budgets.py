"""Budgets of kernels, from their specs: images and saved reviews in, the kernels above them out.

::

    specs/norms.toml:12:1: error: l2norm<float, kspec::Lines> takes 40 registers on sm_90;
    max_registers is 32
    specs/norms.toml:13:12: error: l2norm touches 16.0 sectors per request on H200, at
    kspec/pack.cuh:113; budget.sectors_per_request is 4.5

The figures are those of `kspec.lock`; PTX has none, so a budget says nothing of it. A review counts
as long as the source of its kernel is the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from kspec.build.images import Built, images_of
from kspec.build.plan import BuildPlan, Unit
from kspec.build.report.locking import kernel_digest
from kspec.build.report.saved import SavedReview
from kspec.dataclass import dataclass
from kspec.diagnostics import Diagnostic
from kspec.model.manifest import ImageEntry
from kspec.render import specializations
from kspec.spec.loader import SpecFileError
from kspec.spec.models import Spec


class BudgetError(SpecFileError):
    """Kernels take more than their specs allow; the message has every specialization."""


@dataclass(frozen=True)
class _Budget:
    """A field of specs that limits a figure; with a dot, a key of a table."""

    field: str
    verb: str
    unit: str
    figure: str

    def limit(self, spec: Spec) -> float | None:
        """Return the limit that a spec sets; None if it sets none."""
        value: object = spec
        for name in self.field.split("."):
            value = getattr(value, name, None)
        if isinstance(value, bool):
            return 0 if value else None
        return value if isinstance(value, int | float) else None

    def said(self, spec: Spec) -> str:
        """Return the limit in words."""
        limit = self.limit(spec)
        number = f"{limit:g}" if isinstance(limit, float) else str(limit)
        return f"{self.field} {'allows none' if self.field == 'no_spills' else f'is {number}'}"


_BUDGETS = (
    _Budget("max_registers", "takes", "registers", "registers"),
    _Budget("budget.registers", "takes", "registers", "registers"),
    _Budget("no_spills", "spills", "bytes of registers", "spill_bytes"),
    _Budget("budget.spills", "spills", "bytes of registers", "spill_bytes"),
    _Budget("max_bytes", "has", "bytes of code", "code_bytes"),
)
# Those of saved reviews. A share that falls is worse, so its budget is the least.
_REVIEW_BUDGETS = (
    _Budget("budget.sectors_per_request", "touches", "sectors per request", "sectors_per_request"),
    _Budget("budget.conflicts", "needs", "extra passes for bank conflicts", "conflicts"),
    _Budget("budget.warp_efficiency", "keeps", "of 32 threads active", "warp_efficiency"),
)
_LEAST = "warp_efficiency"


def check_budgets(plan: BuildPlan, images: Mapping[str, Built], with_reviews: bool = True) -> None:
    """Raise `BudgetError` if kernels take more than their specs allow.

    Parameters
    ----------
    plan : BuildPlan
        What was built.
    images : mapping of str to Built
        The images by name.
    with_reviews : bool
        Whether saved reviews are compared with their budgets too.
    """
    problems = [
        problem
        for unit in plan.units
        for group, built in images_of(unit, images)
        for spec in group.specs
        for problem in _problems(plan, unit, spec, built.entry)
    ]
    if with_reviews:
        problems += review_problems(plan)
    if problems:
        raise BudgetError(problems)


def check_reviews(plan: BuildPlan, kernels: Collection[str]) -> None:
    """Raise `BudgetError` if saved reviews of some kernels, by name, exceed their budgets."""
    problems = review_problems(plan, kernels)
    if problems:
        raise BudgetError(problems)


def review_problems(plan: BuildPlan, kernels: Collection[str] | None = None) -> list[Diagnostic]:
    """Return an error for each figure of a saved review above a budget, of some kernels or all."""
    return [
        problem
        for unit, spec, reviews in _reviewed(plan)
        if kernels is None or spec.name in kernels
        for budget in _REVIEW_BUDGETS
        for problem in _review_problems(plan, unit, spec, budget, reviews)
    ]


def unreviewed(plan: BuildPlan, severity: str = "warning") -> list[Diagnostic]:
    """Return a finding for each kernel whose budget cannot be checked: it was not reviewed."""
    found = []
    for unit, spec, reviews in _reviewed(plan):
        if reviews:
            continue
        budget = next(one for one in _REVIEW_BUDGETS if one.limit(spec) is not None)
        if any(True for _ in specializations(spec)):
            reason = "there is no saved review of its present source"
            advice = f"run `kspec review {unit.stem}.{spec.name} --save`"
        else:
            reason = "it is not precompiled, so it has no saved reviews"
            advice = "list its 'types'"
        message = f"{spec.name}: {budget.field} cannot be checked: {reason}"
        found.append(_located(plan, unit, spec, budget, message, severity, advice))
    return found


def _reviewed(plan: BuildPlan) -> Iterator[tuple[Unit, Spec, tuple[SavedReview, ...]]]:
    """Yield the kernels with a budget for reviews, and the reviews of their present source."""
    saved = plan.lock.reviews if plan.lock else {}
    for unit in plan.units:
        for spec in unit.spec_file.specs:
            if all(one.limit(spec) is None for one in _REVIEW_BUDGETS):
                continue
            own = saved.get((unit.stem, spec.name), ())
            digest = kernel_digest(unit, spec, plan) if own else ""
            yield unit, spec, tuple(one for one in own if one.is_of(digest))


def _review_problems(
    plan: BuildPlan, unit: Unit, spec: Spec, budget: _Budget, reviews: tuple[SavedReview, ...]
) -> Iterator[Diagnostic]:
    limit = budget.limit(spec)
    if limit is None:
        return
    for one in reviews:
        number = one.figures[budget.figure]
        if number >= limit if budget.figure == _LEAST else number <= limit:
            continue
        line = one.worst(budget.figure)
        place = f", at {line.place}" if line else ""
        message = (
            f"{spec.name} {budget.verb} {number:g} {budget.unit} on {one.gpu}{place}; "
            f"{budget.said(spec)}"
        )
        yield _located(
            plan, unit, spec, budget, message, details=_details(one, line.text if line else "")
        )


def _details(one: SavedReview, text: str) -> tuple[str, ...]:
    return tuple(filter(None, [text, f"reviewed with {', '.join(one.arguments)}"]))


def _problems(plan: BuildPlan, unit: Unit, spec: Spec, entry: ImageEntry) -> Iterator[Diagnostic]:
    names = dict.fromkeys(one.name_expression for one in specializations(spec))
    for budget in _BUDGETS:
        most = budget.limit(spec)
        if most is None:
            continue
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
                message = f"{name} {budget.verb} {', '.join(places)}; {budget.said(spec)}"
                yield _located(plan, unit, spec, budget, message)


def _located(
    plan: BuildPlan,
    unit: Unit,
    spec: Spec,
    budget: _Budget,
    message: str,
    severity: str = "error",
    hint: str = "",
    details: tuple[str, ...] = (),
) -> Diagnostic:
    """Return a finding that points at a budget in a kernel's table."""
    file, key = unit.spec_file, budget.field.rpartition(".")[2]
    line = file.lines[spec.name, budget.field]
    text = (plan.settings.project / file.path).read_text(encoding="utf-8")
    source = text.splitlines()[line - 1]
    match = re.search(rf"\b{key}\b", source)
    return Diagnostic(
        severity,
        message,
        file.path,
        line,
        match.start() + 1 if match else 1,
        len(key),
        source,
        code=budget.field,
        details=details,
        hint=hint,
    )
