"""Changes of saved reviews: two locks in, the calls whose figures differ out.

::

    for one in regressions(plan):   # against the last commit
        print(one)                  # warning: sectors_per_request has gone from 4 to 16 ...

`kspec diff` shows all of them, `kspec check` those for the worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kspec.build.plan import BuildPlan
from kspec.build.report.lock import Lock
from kspec.build.report.revisions import committed_lock
from kspec.build.report.saved import FIGURES
from kspec.dataclass import dataclass
from kspec.diagnostics import Diagnostic

_NOISE = 0.02  # a figure that is worse by less: estimates depend on the host's compiler


@dataclass(frozen=True)
class ReviewChange:
    """A reviewed call with its figures in two locks, by their names there."""

    kernel: str
    gpu: str
    arguments: tuple[str, ...]
    before: Mapping[str, float]
    after: Mapping[str, float]

    def delta(self, key: str) -> float:
        """Return the growth of a figure."""
        return round(self.after[key] - self.before[key], FIGURES[key][0])

    def is_worse(self, key: str, noise: float = 0.0) -> bool:
        """Whether a figure has become worse, by more than a share of its old value."""
        _, more_is_worse = FIGURES[key]
        change = self.delta(key) if more_is_worse else -self.delta(key)
        return change > noise * abs(self.before[key])


def review_changes(before: Lock | None, after: Lock | None) -> Iterator[ReviewChange]:
    """Yield the calls that both locks have reviews of, with other figures."""
    if before is None or after is None:
        return
    known = {(key, one.call): one.figures for key, some in before.reviews.items() for one in some}
    for (module, name), reviews in after.reviews.items():
        for one in reviews:
            old = known.get(((module, name), one.call), one.figures)
            if old != one.figures:
                yield ReviewChange(f"{module}.{name}", *one.call, old, one.figures)


def regressions(plan: BuildPlan) -> list[Diagnostic]:
    """Return a warning for each saved figure that is worse than in the last commit."""
    if not plan.lock or not plan.lock.reviews:
        return []
    places = {
        f"{unit.stem}.{spec.name}": (unit.spec_file.path, unit.spec_file.lines[spec.name, "name"])
        for unit in plan.units
        for spec in unit.spec_file.specs
    }
    found = []
    for one in review_changes(committed_lock(plan.settings.project), plan.lock):
        for key in FIGURES:
            if one.kernel in places and one.is_worse(key, _NOISE):
                message = (
                    f"{one.kernel}: {key} has gone from {one.before[key]:g} to {one.after[key]:g} "
                    f"on {one.gpu} since the last commit, with {', '.join(one.arguments)}"
                )
                path, line = places[one.kernel]
                found.append(Diagnostic("warning", message, path, line, code="review"))
    return found
