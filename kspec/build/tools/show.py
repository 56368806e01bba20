"""One kernel at one stage of the pipeline, as text: debugging generated code is reading it.

>>> print(show_kernel(plan, "l2norm", "signature"))                    # doctest: +SKIP
l2norm(T x) -> (T y)
"""

from __future__ import annotations

import difflib
import pprint
from collections.abc import Callable
from dataclasses import replace

from kspec.build.package import api, files
from kspec.build.plan import BuildPlan, Unit
from kspec.errors import ManifestError, SpecError
from kspec.model.manifest import ImageEntry
from kspec.render import context, render_file, specializations
from kspec.render.fragments import FragmentOrigin
from kspec.spec.models import ElementwiseSpec, RawSpec, Spec


class UnknownKernelError(SpecError):
    """No spec declares a kernel of this name."""


def find_kernel(plan: BuildPlan, name: str) -> tuple[Unit, Spec]:
    """Return a kernel by its name, with or without its module's.

    Raises
    ------
    UnknownKernelError
        If there is none; the nearest names are suggested.
    """
    known = {}
    for unit in plan.units:
        for spec in unit.spec_file.specs:
            known[spec.name] = known[f"{unit.stem}.{spec.name}"] = unit, spec
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 3)
    close = " or ".join(dict.fromkeys(known[one][1].name for one in near))
    every = ", ".join(spec.name for spec in plan.specs)
    advice = f"did you mean {close}?" if near else f"the specs declare {every}"
    raise UnknownKernelError(f"unknown kernel {name!r}; {advice}")


def show_kernel(plan: BuildPlan, name: str, stage: str) -> str:
    """Return a kernel at a stage: one of `STAGES`.

    Raises
    ------
    UnknownKernelError
        If no spec declares it.
    SpecError
        For an unknown stage.
    ManifestError
        If the stage is ``image`` and there is none.
    """
    if stage not in _VIEWS:
        raise SpecError(f"unknown stage {stage!r}; expected one of {', '.join(STAGES)}")
    unit, spec = find_kernel(plan, name)
    return _VIEWS[stage](plan, unit, spec)


def _signature(plan: BuildPlan, unit: Unit, spec: Spec) -> str:
    if isinstance(spec, RawSpec):
        lines = [f"{spec.kind} {spec.name}{spec.declaration().signature}"]
    else:
        lines = [f"{spec.kind} {spec.name}({spec.inputs}) -> ({spec.outputs})"]
    number = unit.spec_file.specs.index(spec)
    lines += ["", api.functions_of(unit)[number].signature, "", "precompiled:"]
    names = [one.name_expression for one in specializations(spec)]
    return "\n".join([*lines, *(f"  {name}" for name in names or ["nothing"])])


def _context(plan: BuildPlan, unit: Unit, spec: Spec) -> str:
    origin = FragmentOrigin.in_file(unit.spec_file, spec.name)
    if isinstance(spec, RawSpec):
        return pprint.pformat(context.raw_context([spec], origin))
    if isinstance(spec, ElementwiseSpec):
        return pprint.pformat(context.elementwise_context(spec, origin, None))
    return pprint.pformat(context.reduction_context(spec, origin, None))


def _source(plan: BuildPlan, unit: Unit, spec: Spec) -> str:
    return render_file(replace(unit.spec_file, specs=(spec,)))


def _image(plan: BuildPlan, unit: Unit, spec: Spec) -> str:
    group = unit.group_of(spec.name)
    if group is None:
        raise ManifestError(f"{spec.name} has no image: it is compiled lazily; list its 'types'")
    built = files.read_images(plan.settings.package_folder).get(group.name)
    if built is None:
        raise ManifestError(f"there is no image of {group.name}; run `kspec build`")
    size = f"{len(built.code)} bytes" if built.code else "not built in this checkout"
    head = f"{built.entry.file}: {size}, by {built.entry.compiler}"
    names = [one.name_expression for one in specializations(spec)]
    lines = [line for name in names for line in _resources(built.entry, name)]
    return "\n".join([head, *lines])


def _resources(entry: ImageEntry, name: str) -> list[str]:
    lines = ["", name, f"  symbol     {entry.symbols.get(name, '(not built)')}"]
    for arch in entry.archs:
        figures = entry.figures.get(arch, {}).get(name)
        if figures is None:
            lines.append(f"  {arch:10} PTX" if arch.startswith("compute") else f"  {arch}")
            continue
        lines.append(
            f"  {arch:10} {figures.registers} registers, {max(0, figures.shared_bytes)} B shared, "
            f"{max(0, figures.local_bytes)} B stack, {max(0, figures.spill_bytes)} B spilled, "
            f"{max(0, figures.code_bytes)} B code"
        )
    return lines


_VIEWS: dict[str, Callable[[BuildPlan, Unit, Spec], str]] = {
    "signature": _signature,
    "context": _context,
    "source": _source,
    "image": _image,
}
STAGES = tuple(_VIEWS)
