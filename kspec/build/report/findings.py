"""Findings of a build that succeeded: warnings, and spilled registers.

::

    findings_of(plan, images, ("norms",))
    # (Diagnostic("warning", 'variable "n" was declared but never referenced', ...),)

Only of modules that were compiled just now, as other compilers do: what is up to date was said
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kspec.build.images import Built
from kspec.build.package.source_map import map_to_specs
from kspec.build.plan import BuildPlan, Unit
from kspec.compiler.messages import parse_log
from kspec.cpp.name_expressions import normal_form
from kspec.diagnostics import Diagnostic, by_place
from kspec.render import specializations
from kspec.spec.models import RawSpec, Spec

# The schedules of generated kernels trade a few bytes for more blocks per multiprocessor: those
# are kspec's doing, and measured. What is above comes from the spec.
_OWN_SPILL = 64


def findings_of(
    plan: BuildPlan, images: Mapping[str, Built], modules: Iterable[str], verbose: bool = False
) -> tuple[Diagnostic, ...]:
    """Return the warnings and notes about some modules of a build, sorted by place.

    Parameters
    ----------
    plan : BuildPlan
        What was built.
    images : mapping of str to Built
        The images by module.
    modules : iterable of str
        Those that were compiled just now.
    verbose : bool
        Whether to tell also what the user cannot change: warnings about kspec's own headers,
        and the few bytes that generated kernels spill.

    Notes
    -----
    Warnings are those of the compilers, and of the spec files.
    """
    settings = plan.settings
    wanted = set(modules)
    found: list[Diagnostic] = []
    for unit in plan.units:
        if unit.stem not in wanted or unit.stem not in images:
            continue
        built = images[unit.stem]
        found += unit.spec_file.warnings
        warnings = [one for log in built.logs for one in parse_log(log, unit.source)]
        warnings = [one for one in warnings if one.severity != "error"]
        found += map_to_specs(warnings, settings.project, settings.specs, outside=verbose)
        spills = _spills(unit, built, 0 if verbose else _OWN_SPILL)
        found += map_to_specs(spills, settings.project, settings.specs)
    return by_place(found)


def _spills(unit: Unit, built: Built, own: int) -> Iterator[Diagnostic]:
    """Yield a note for each kernel of a module that spills more than is kspec's own doing."""
    for spec in unit.spec_file.specs:
        allowed = 0 if isinstance(spec, RawSpec) else own
        rows = [
            (figures.spill_bytes, name, arch)
            for arch, table in built.entry.figures.items()
            for name, figures in table.items()
            if figures.spill_bytes > allowed and normal_form(name) in _names(spec)
        ]
        if rows:
            yield _spill_note(unit, spec, rows)


def _names(spec: Spec) -> set[str]:
    return {normal_form(one.name_expression) for one in specializations(spec)}


def _spill_note(unit: Unit, spec: Spec, rows: list[tuple[int, str, str]]) -> Diagnostic:
    most, name, arch = max(rows, key=lambda row: row[0])
    archs = len({row[2] for row in rows})
    others = f", and others on {archs} architectures" if archs > 1 else ""
    return Diagnostic(
        "note",
        f"{name} spills {most} bytes of registers to local memory on {arch}{others}",
        unit.spec_file.path,
        unit.spec_file.lines[spec.name, "name"],
        kernel=spec.name,
        code="spill",
        hint=f"`kspec show {spec.name} --stage image` has the figures of all",
    )
