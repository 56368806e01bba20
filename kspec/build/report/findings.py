"""Findings of a build that succeeded: warnings, and spilled registers.

::

    findings_of(plan, images, ("norms.l2norm",))
    # (Diagnostic("warning", 'variable "n" was declared but never referenced', ...),)

Only of modules that were compiled just now, as other compilers do: what is up to date was said
before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kspec.build.images import Built, images_of
from kspec.build.package.source_map import map_to_specs
from kspec.build.plan import BuildPlan, Group, Unit, group_source
from kspec.compiler.messages import parse_log
from kspec.cpp.name_expressions import normal_form
from kspec.diagnostics import Diagnostic, by_place
from kspec.render import specializations
from kspec.spec.models import RawSpec, Spec

# The schedules of generated kernels trade a few bytes for more blocks per multiprocessor: those
# are kspec's doing, and measured. What is above comes from the spec.
_OWN_SPILL = 64


def findings_of(
    plan: BuildPlan, images: Mapping[str, Built], wanted: Collection[str], verbose: bool = False
) -> tuple[Diagnostic, ...]:
    """Return the warnings and notes about some images of a build, sorted by place.

    Parameters
    ----------
    plan : BuildPlan
        What was built.
    images : mapping of str to Built
        The images by name.
    wanted : collection of str
        Those that were compiled just now.
    verbose : bool
        Whether to tell also what the user cannot change: warnings about kspec's own headers,
        and the few bytes that generated kernels spill.

    Notes
    -----
    Warnings are those of the compilers, and of the spec files.
    """
    settings = plan.settings
    found: list[Diagnostic] = []
    for unit in plan.units:
        made = [one for one in images_of(unit, images) if one[0].name in wanted]
        found += unit.spec_file.warnings if made else ()
        warnings: list[Diagnostic] = []
        for group, built in made:
            if built.logs:
                source = group_source(settings, unit, group)
                warnings += (one for log in built.logs for one in parse_log(log, source))
            spills = _spills(unit, group, built, 0 if verbose else _OWN_SPILL)
            found += map_to_specs(spills, settings.project, settings.specs)
        warnings = [one for one in warnings if one.severity != "error"]
        found += map_to_specs(warnings, settings.project, settings.specs, outside=verbose)
    return by_place(found)


def _spills(unit: Unit, group: Group, built: Built, own: int) -> Iterator[Diagnostic]:
    """Yield a note for each kernel of an image that spills more than is kspec's own doing."""
    for spec in group.specs:
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
