"""Template contexts in, CUDA text out: runs Jinja and fixes up ``#line``.

Same specs, same bytes: no time, no machine, no absolute path enters the text.  The neighbour
`kspec.render.context` makes the strings; `kspec.pipeline` compiles the result.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from kspec.cpp.directives import line_directive
from kspec.errors import RenderError
from kspec.files import ROOT, check_unpacked
from kspec.model.definitions import definitions_for
from kspec.model.raw.param_checks import HEADER as PARAMS_HEADER
from kspec.model.raw.param_checks import ParamLines, param_checks
from kspec.model.stages import CudaSource
from kspec.render import context
from kspec.render.context import Binding
from kspec.render.fragments import FragmentOrigin
from kspec.render.includes import includes_for, types_of
from kspec.render.structs import HEADER, struct_checks
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec

if TYPE_CHECKING:
    from kspec.spec.loader import SpecFile

_RESUME = "//@resume"

Context = context.Context


def template_folder() -> Path:
    """Return the folder of the Jinja templates: in the wheel, or beside the package in a clone.

    Raises
    ------
    ToolNotFoundError
        If kspec was imported from an archive.
    """
    check_unpacked()
    inside = ROOT / "templates"
    return inside if inside.is_dir() else ROOT.parent / "templates"


@functools.cache
def template_environment() -> Environment:
    """Return the Jinja environment all templates are rendered in.

    It is made once and keeps the templates it has compiled: every kernel compiled at run time
    renders four of them.
    """
    return Environment(
        loader=FileSystemLoader(template_folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
    )


def render_template(name: str, values: Mapping[str, object], origin: str = "") -> str:
    """Return the text that a template makes of some values; in HTML they are escaped.

    Raises
    ------
    RenderError
        If the template is broken; the message names `origin`, or else the template.
    """
    try:
        return template_environment().get_template(name).render(values)
    except TemplateError as error:
        raise RenderError(f"{origin or name}: {error}") from error


def render_file(spec_file: SpecFile) -> str:
    """Return the translation unit of one spec file, named ``<stem>.cu``.

    Raises
    ------
    RenderError
        If a template is broken.
    """
    contexts: list[Context] = []
    sources: set[str] = set()
    for spec in spec_file.specs:
        if isinstance(spec, RawSpec):
            # Several kernels may live in one .cu file; its text stands here once.
            if spec.text not in sources:
                sources.add(spec.text)
                contexts.append(_raw_context(spec.text, spec_file))
        else:
            origin = FragmentOrigin.in_file(spec_file, spec.name)
            contexts.append(_generated_context(spec, origin, None))
    generated = _generated(spec_file.specs)
    raw = [spec for spec in spec_file.specs if isinstance(spec, RawSpec)]
    checked = [HEADER] if spec_file.structs else []
    checked += [PARAMS_HEADER] if any(spec.params is not None for spec in raw) else []
    includes = (*includes_for(generated), *checked)
    surroundings = includes, definitions_for(types_of(generated))
    return _render(contexts, *surroundings, spec_file.path, f"{spec_file.stem}.cu")


def render_specs(specs: Sequence[Spec], name: str, binding: Binding | None = None) -> CudaSource:
    """Return the source of specs that live in Python, not in a file.

    Parameters
    ----------
    specs : sequence of specs
        Kernels of one translation unit.
    name : str
        File name for messages.
    binding : sequence of (str, str), optional
        The one binding it will be compiled for, of a kernel that is alone.
    """
    contexts: list[Context] = []
    for spec in specs:
        # Without a file, messages point at the argument: "<sq.operation>(1): error: ...".
        origin = FragmentOrigin(spec.name, None)
        if isinstance(spec, RawSpec):
            contexts.append(context.raw_context([spec], origin))
        else:
            contexts.append(_generated_context(spec, origin, binding))
    generated = _generated(specs)
    surroundings = includes_for(generated, binding), definitions_for(types_of(generated, binding))
    text = _render(contexts, *surroundings, "Python", name)
    return CudaSource(name, text, options=compiler_options(specs))


def compiler_options(specs: Sequence[Spec]) -> tuple[str, ...]:
    """Return the compiler options of a translation unit with these specs."""
    return tuple(dict.fromkeys(option for spec in specs for option in spec.compiler_options))


def _generated(specs: Sequence[Spec]) -> tuple[ElementwiseSpec | ReductionSpec, ...]:
    return tuple(spec for spec in specs if not isinstance(spec, RawSpec))


def _generated_context(
    spec: ElementwiseSpec | ReductionSpec, origin: FragmentOrigin, binding: Binding | None
) -> Context:
    if isinstance(spec, ElementwiseSpec):
        return context.elementwise_context(spec, origin, binding)
    return context.reduction_context(spec, origin, binding)


def _raw_context(text: str, spec_file: SpecFile) -> context.RawContext:
    """Return the strings of the raw kernels of one source."""
    specs = [one for one in spec_file.specs if isinstance(one, RawSpec) and one.text == text]
    used = {name for spec in specs for name in spec.structs}
    declared = [one for one in spec_file.structs if one.name in used]
    checks = [*struct_checks(declared, spec_file.path)]
    for spec in specs:
        checks += _param_checks(spec, spec_file)
    return context.raw_context(specs, _raw_origin(specs[0], spec_file), tuple(checks))


def _param_checks(spec: RawSpec, spec_file: SpecFile) -> Iterator[str]:
    """Return the lines that compare the parameters of a raw kernel with its source's."""
    if spec.params is None:
        return iter(())
    lines = spec_file.param_lines(spec.name, len(spec.params))
    expressions = spec.declaration().name_expressions
    place = ParamLines(spec_file.path, lines)
    return param_checks(spec.name, expressions, spec.params, place, template=spec.template)


def _raw_origin(spec: RawSpec, spec_file: SpecFile) -> FragmentOrigin:
    """Return the place of a raw kernel's code: its own file, or the spec file."""
    if spec.source:
        return FragmentOrigin((PurePosixPath(spec_file.path).parent / spec.source).as_posix(), {})
    return FragmentOrigin.in_file(spec_file, spec.name)


def _render(
    contexts: Sequence[Context],
    includes: tuple[str, ...],
    structs: tuple[str, ...],
    origin: str,
    name: str,
) -> str:
    values: Mapping[str, object] = {
        "origin": origin,
        "includes": includes,
        "structs": structs,
        "kernels": tuple(_included_once(contexts)),
    }
    return _resume_lines(render_template("file.cu.j2", values, name), name)


def _included_once(contexts: Sequence[Context]) -> Iterator[Context]:
    """Leave out what an earlier kernel has: includes, and preambles in the global namespace.

    Not every header has a guard, and no preamble has one.
    """
    seen: set[str] = set()
    for one in contexts:
        head = tuple(line for line in one.head if line not in seen)
        shared = context.global_text(one)
        yield context.without_preamble(replace(one, head=head), shared in seen)
        seen.update((*context.included(one.head), *([shared] if shared else [])))


def _resume_lines(text: str, name: str) -> str:
    """Replace each resume mark by a ``#line`` that says where the generated text goes on."""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if line == _RESUME:
            lines[number - 1] = line_directive(number + 1, name)
    return "\n".join(lines)
