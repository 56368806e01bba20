"""Advice for a kernel that a package lacks for a device: the line to add to its spec.

::

    in specs/norms.toml, line 14, [reduction.l2norm], write
        types = { T = ["float16", "float32", "float64", "int32"] }
    then run `kspec build`

`kspec.runtime.package` says it in `SpecializationNotBuilt`; `kspec.model.coverage` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kspec.model.coverage import (
    Coverage,
    binding_text,
    layout_text,
    layouts_of,
    types_text,
    widened,
)
from kspec.model.declaration import Declaration, RawDeclaration, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE, SCAN, form_of
from kspec.model.manifest import ModuleEntry
from kspec.model.stages import RawSymbol, Specialization, is_of_aggregates
from kspec.runtime.driver.archs import device_arch, device_text
from kspec.runtime.driver.device import Device
from kspec.toml import toml_value

Wanted = Specialization | RawSymbol
_THEN = "then run `kspec build`"


def advise(folder: Path, entry: ModuleEntry, wanted: Wanted, device: Device) -> str:
    """Return the missing part of a module's kernel for a device, and the way to add it.

    Parameters
    ----------
    folder : Path
        Of the generated package.
    entry : ModuleEntry
        The module's part of the manifest.
    wanted : Specialization or RawSymbol
        The kernel that was called.
    device : Device
        Where.
    """
    kernel, image = declaration_of(entry, wanted), entry.image_of(wanted.name_expression)
    lines = tuple(missing_lines(entry, kernel, wanted)) if kernel else ()
    kernel = _written(entry, kernel) if kernel else None
    head = f"missing: {_words(entry, kernel, wanted, device)}"
    if device.is_host and not (lines and isinstance(kernel, RawDeclaration)):
        what = "images are for GPUs; the host device compiles what it runs: KSPEC_JIT=auto lets it"
    elif kernel is not None and lines:
        what = _instruction(entry, kernel, lines)
    elif not any((folder / one.file).is_file() for one in ([image] if image else entry.images)):
        what = "the package was not compiled: run `kspec build`"
    elif image is not None:
        what = _other_arch(image.archs, device)
    elif kernel is None:
        what = f"see {wanted.name_expression} in {entry.spec}"
    else:
        what = f"{entry.spec} declares it, so the package is older: run `kspec build`"
    return f"{head}\n{what}"


def undeclared_form(entry: ModuleEntry, kernel: ReductionDeclaration, form: str) -> str:
    """Return the message about a form that the spec of a reduction does not declare."""
    line = f"forms = {toml_value(_with_form(kernel, form))}"
    return f"{kernel.name} has no form {form!r}; {_instruction(entry, kernel, [line])}"


def _with_form(kernel: ReductionDeclaration, form: str) -> list[str]:
    """Return `forms` of the spec of a reduction, with one more."""
    return [*(() if kernel.forms_only else (REDUCE,)), *kernel.forms, form]


def _instruction(entry: ModuleEntry, kernel: Declaration, lines: Iterable[str]) -> str:
    """Return the place of new lines in a spec file, the lines, and the next step."""
    line = entry.coverage[kernel.name].line if kernel.name in entry.coverage else 0
    place = f"{entry.spec}{f', line {line}' if line else ''}, [{kernel.kind}.{kernel.name}]"
    return "\n".join([f"in {place}, write", *(f"    {line}" for line in lines), _THEN])


def declaration_of(entry: ModuleEntry, wanted: Wanted) -> Declaration | None:
    """Return the kernel of a module that `wanted` is an instance of, if there is one."""
    if isinstance(wanted, Specialization):
        found = (one for one in entry.kernels if one.name == wanted.kernel)
        return next(found, None)
    stem = wanted.name_expression.partition("<")[0]
    raw = [one for one in entry.kernels if isinstance(one, RawDeclaration)]
    exact = (one for one in raw if wanted.name_expression in one.name_expressions)
    alike = (
        one for one in raw if any(name.partition("<")[0] == stem for name in one.name_expressions)
    )
    return next(exact, None) or next(alike, None)


def missing_lines(entry: ModuleEntry, kernel: Declaration, wanted: Wanted) -> Iterator[str]:
    """Yield the lines of a spec file that would make the build compile `wanted`."""
    if isinstance(kernel, RawDeclaration):
        if wanted.name_expression not in kernel.name_expressions:
            names = toml_value([*kernel.name_expressions, wanted.name_expression])
            yield f"name_expressions = {names}"
        return
    if not isinstance(wanted, Specialization):
        return
    coverage = entry.coverage.get(kernel.name, Coverage(0, {}))
    if wanted.binding not in coverage.bindings(kernel.placeholders):
        written = _written(entry, kernel)
        assert not isinstance(written, RawDeclaration)
        listed = entry.coverage.get(written.name, Coverage(0, {})).types
        bound = dict(wanted.binding)
        # The dtypes of gradients are among those of the kernel in front.
        rest = {letter: "float32" for letter in written.placeholders if letter not in bound}
        row = tuple((letter, (bound | rest)[letter]) for letter in written.placeholders)
        types = widened(listed, written.placeholders, [row])
        yield from f"types = {types_text(types)}".split("\n")
    layouts = layouts_of(kernel, wanted.binding, coverage.layouts)
    known: dict[str, tuple[int, ...]] = dict(getattr(kernel, "sizes", ()))
    if any(value not in known[name] for name, value in wanted.sizes):
        wider = {name: tuple(dict.fromkeys((*known[name], one))) for name, one in wanted.sizes}
        yield f"sizes = {toml_value(wider)}"
    form = form_of(wanted.layout)
    if is_of_aggregates(wanted.layout) and SCAN in getattr(kernel, "forms", ()):
        form = SCAN  # whose parts are reduced as segments
    if isinstance(kernel, ReductionDeclaration) and form not in (REDUCE, *kernel.forms):
        yield f"forms = {toml_value(_with_form(kernel, form))}"
    elif (wanted.layout, wanted.raw_ndims) not in layouts:
        more = [*coverage.layouts, layout_text(wanted.layout, wanted.raw_ndims)]
        yield f"layouts = {toml_value(more)}"


def _written(entry: ModuleEntry, kernel: Declaration) -> Declaration:
    """Return the kernel whose table in the spec file declares `kernel`."""
    forward = getattr(kernel, "forward", "")
    return next((one for one in entry.kernels if one.name == forward), kernel)


def _words(entry: ModuleEntry, kernel: Declaration | None, wanted: Wanted, device: Device) -> str:
    """Return kernel, binding, layout and architecture."""
    name = kernel.name if kernel else wanted.name_expression
    parts = [f"{entry.stem}.{name}", binding_text(wanted.binding)]
    if isinstance(wanted, Specialization):
        parts += [f"{name} = {value}" for name, value in wanted.sizes]
        parts.append(f"layout {layout_text(wanted.layout, wanted.raw_ndims)!r}")
    parts.append("host" if device.is_host else device_arch(device.ordinal))
    return ", ".join(part for part in parts if part)


def _other_arch(archs: tuple[str, ...], device: Device) -> str:
    """Return the mismatch, and the way to build for the device."""
    arch = device_arch(device.ordinal)
    more = toml_value(list(dict.fromkeys([*archs, arch])))
    return (
        f"the package has code for {', '.join(archs)}, none of which runs on\n"
        f"{device_text(device.ordinal)}; write in pyproject.toml, [tool.kspec]\n"
        f"    archs = {more}\n{_THEN}; or, for this machine alone, `kspec build --arch native`"
    )
