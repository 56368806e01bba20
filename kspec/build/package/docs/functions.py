"""Docstrings of elementwise functions and reductions, and of a reduction's other forms."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from kspec.build.package.docs.lines import (
    Lines,
    SpecLocation,
    array_text,
    axis_lines,
    heading,
    indented,
    return_lines,
    safe,
    scalar_text,
    stream_lines,
    summary,
    wrapped,
)
from kspec.build.package.form_texts import FORM_SUMMARIES, form_parameters
from kspec.model.neighbours.windows import Window
from kspec.model.signature import Param, Signature
from kspec.render.parameters import windows_of
from kspec.spec.models import ElementwiseSpec, ReductionSpec, Spec


def generated_doc(
    spec: ElementwiseSpec | ReductionSpec,
    inputs: Sequence[str],
    outputs: Sequence[str],
    place: SpecLocation,
    sizes: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the docstring of an elementwise function, or of a reduction.

    `inputs`, `outputs` and `sizes` are their names in Python.
    """
    declaration = spec.declaration()
    lines = [*summary(spec), "", *heading("Parameters")]
    for word, param in zip(inputs, spec.inputs, strict=True):
        if param.name in declaration.scalars:
            lines += [f"{word} : {scalar_text(param)}", "    Input, one number for all elements."]
            continue
        also = "" if declaration.needs_array(param) else " or scalar"
        lines.append(f"{word} : {array_text(param)}{also}")
        window = windows_of(declaration).get(param.name)
        lines += indented(_window_text(window) if window else _input_text(param))
    if isinstance(spec, ReductionSpec):
        return safe(lines + _reduction(spec, outputs, place))
    return safe(lines + _elementwise(spec, outputs, sizes, place))


def _elementwise(
    spec: ElementwiseSpec, outputs: Sequence[str], sizes: Sequence[str], place: SpecLocation
) -> Lines:
    """Return the rest of an elementwise function's docstring, after the inputs."""
    lines = [*_outputs(spec.outputs, outputs, outputs_required(spec)), *_out(spec)]
    if takes_size(spec):
        lines.append("size : int, optional")
        lines += indented("Number of loop steps; only when every array is raw.")
    lines += size_lines(spec, sizes)
    lines += [*stream_lines(), ""]
    returned = () if spec.no_return else spec.outputs.params
    lines += return_lines(returned, outputs, spec.return_tuple)
    wrong = "Shapes do not broadcast, or the loop size is not known."
    if spec.has_core:
        wrong = "Shapes do not broadcast, or core dimensions do not match."
    lines += _generated_raises(spec, wrong)
    arrow = f"{spec.inputs} -> {spec.outputs}".strip()
    return lines + _notes(spec, f"Elementwise kernel ``{arrow}``", place)


def _reduction(spec: ReductionSpec, outputs: Sequence[str], place: SpecLocation) -> Lines:
    """Return the rest of a reduction's docstring, after the inputs."""
    lines = _outputs(spec.outputs, outputs, required=False)
    lines += [*_out(spec), *axis_lines()]
    lines += [*stream_lines(), "", *return_lines(spec.outputs.params, outputs, False)]
    wrong = "Shapes do not fit, or an axis is given twice."
    if spec.identity is None:
        wrong = "Shapes do not fit, an axis is given twice, or there is nothing to reduce."
    lines += _generated_raises(spec, wrong)
    lines += ["numpy.exceptions.AxisError", "    An axis is out of range."]
    if spec.declaration().forms_only:
        lines += ["NotSupportedError", "    Always: the spec lists no 'reduce' in its forms."]
    lines += [""]
    return lines + _notes(spec, f"Reduction ``{spec.inputs} -> {spec.outputs}``", place)


def form_doc(
    spec: ElementwiseSpec | ReductionSpec, form: str, inputs: Sequence[str]
) -> tuple[str, ...]:
    """Return the docstring of a method that is another form of a reduction."""
    lines = [FORM_SUMMARIES[form], "", *heading("Parameters")]
    for word, param in zip(inputs, spec.inputs, strict=True):
        scalar = param.name in spec.declaration().scalars
        lines += [f"{word} : {scalar_text(param) if scalar else array_text(param)}", "    Input."]
    lines += form_lines(form, True, "array")
    lines.append(f"out : {'tuple of arrays' if len(spec.outputs) > 1 else 'array'}, optional")
    lines += indented("Outputs; new arrays by default.")
    lines += form_lines(form, False)
    lines += [*stream_lines(), "", *return_lines(spec.outputs.params, spec.outputs.names, False)]
    lines += _generated_raises(spec, "Shapes do not fit.")
    return safe(lines)


def form_lines(form: str, required: bool, array: str = "array") -> Lines:
    """Return the parameters of a form behind the inputs, those that it requires or the others."""
    rows = form_parameters(form, required, array)
    return [line for head, text in rows for line in (head, *indented(text))]


def takes_out(spec: ElementwiseSpec | ReductionSpec) -> bool:
    """Return whether a function has the keyword `out` beside the parameters of its outputs."""
    if isinstance(spec, ElementwiseSpec) and outputs_required(spec):
        return False
    return bool(len(spec.outputs)) and spec.outputs.names != ("out",)


def takes_size(spec: ElementwiseSpec) -> bool:
    """Return whether calls may say how many elements the loop has: all arrays may be raw."""
    needed = spec.windows or any(param.core for param in spec.inputs)
    return any(param.raw for param in spec.params) and not needed


def outputs_required(spec: ElementwiseSpec | ReductionSpec) -> bool:
    """Whether a new output could not be made: no input decides its dtype."""
    return not set(spec.outputs.placeholders) <= set(spec.inputs.placeholders)


def computation(spec: Spec) -> tuple[tuple[str, str], ...]:
    """Return the steps of a generated kernel, by their names, in the words of its spec."""
    fields: tuple[tuple[str, str], ...] = ()
    if isinstance(spec, ElementwiseSpec):
        fields = (
            ("before the loop", spec.loop_prep),
            ("operation", spec.operation),
            ("after the loop", spec.after_loop),
        )
    elif isinstance(spec, ReductionSpec):
        fields = (
            ("map", spec.map),
            ("reduce", spec.reduce),
            ("post-map", spec.post_map),
            ("identity", spec.identity or "none"),
        )
    return tuple((name, textwrap.dedent(text).strip()) for name, text in fields if text.strip())


def size_lines(spec: ElementwiseSpec, sizes: Sequence[str]) -> Lines:
    """Return the keyword arguments for windows and integer placeholders."""
    lines: Lines = []
    if spec.boundaries:
        lines.append(f"boundary : {{{', '.join(map(repr, spec.boundaries))}}}, optional")
        outside = {window.param: window.boundaries for window in spec.declaration().all_windows}
        outside |= {name: one.boundary for name, one in spec.samples.items() if one.boundary}
        usual = " and ".join(
            f"``{one!r}``" for one in dict.fromkeys(x[0] for x in outside.values())
        )
        names = " and ".join(outside)
        lines += indented(f"What lies outside of {names}; {usual} by default.")
    for word, known in zip(sizes, spec.given_sizes.values(), strict=True):
        lines.append(f"{word} : int" + (f", default {known[0]}" if len(known) == 1 else ""))
        listed = (
            f"precompiled for {', '.join(map(str, known))}" if known else "compiled on first use"
        )
        lines += indented(f"Number that the compiler knows; {listed}.")
    return lines


def _window_text(window: Window) -> str:
    """Describe the neighbours of an element that the operation reads.

    >>> _window_text(Window("u", ((1, 1), (0, "R")), ("wrap",)))
    "Read at offsets -1 to 1 and 0 to R along its last 2 axes; 'wrap' outside."
    """
    axes = "last axis" if window.axes == 1 else f"last {window.axes} axes"
    text = f"Read at offsets {' and '.join(window.ranges)} along its {axes}"
    return text + ("." if len(window.boundaries) > 1 else f"; {window.boundaries[0]!r} outside.")


def _input_text(param: Param) -> str:
    if param.raw:
        return "Indexed by the kernel itself: takes no part in broadcasting."
    if param.non_const:
        return "Input that the kernel also writes to."
    return "Input."


def _outputs(params: Signature, words: Sequence[str], required: bool) -> Lines:
    lines: Lines = []
    for word, param in zip(words, params, strict=True):
        lines.append(f"{word} : {array_text(param)}{'' if required else ', optional'}")
        default = "" if required else "; a new array by default"
        raw = " Indexed by the kernel itself." if param.raw else ""
        lines += indented(f"Output{default}.{raw}")
    return lines


def _out(spec: ElementwiseSpec | ReductionSpec) -> Lines:
    """Describe the keyword `out`, if there is one."""
    if not takes_out(spec):
        return []
    many = len(spec.outputs) > 1
    text = f"The output{'s' if many else ''}, by keyword instead of by position."
    return [f"out : {'tuple of arrays' if many else 'array'}, optional", *indented(text)]


def _generated_raises(spec: ElementwiseSpec | ReductionSpec, shapes: str) -> Lines:
    lines = heading("Raises")
    lines += ["ArgumentTypeError", "    An argument has the wrong dtype or lives on another"]
    lines[-1] += " device; also a `TypeError`."
    lines += ["ShapeError", *indented(f"{shapes[:-1]}; also a `ValueError`.")]
    sizes = bool(spec.all_sizes)
    what = "dtypes or sizes" if sizes else "dtypes"
    if spec.placeholders or sizes:
        lines.append("SpecializationNotBuilt")
        lines += indented(f"These {what} are not precompiled and ``KSPEC_JIT=never``.")
    return lines if isinstance(spec, ReductionSpec) else [*lines, ""]


def _notes(spec: ElementwiseSpec | ReductionSpec, what: str, place: SpecLocation) -> Lines:
    lines = [*heading("Notes"), *wrapped(f"{what}, declared in {place}::"), ""]
    steps = computation(spec)
    width = max(len(name) for name, _ in steps)
    for name, text in steps:
        first, *rest = text.splitlines()
        lines.append(f"    {name:{width}}  {first}")
        lines += [f"    {'':{width}}  {line}".rstrip() for line in rest]
    return [*lines, "", *_coverage(spec, place)]


def _coverage(spec: ElementwiseSpec | ReductionSpec, place: SpecLocation) -> Lines:
    """Describe the placeholders and the precompiled dtypes."""
    letters = spec.placeholders
    sizes = spec.all_sizes
    known = "".join(f", {name} = {' or '.join(map(str, one))}" for name, one in sizes.items())
    lazy = not all(sizes.values())
    if not letters:
        compiled = "Nothing is precompiled" if lazy else f"Precompiled{known}{place.compiled_for}"
        return wrapped(f"{compiled}.")
    what = (
        f"``{letters[0]}`` stands for one dtype."
        if len(letters) == 1
        else f"{', '.join(f'``{letter}``' for letter in letters)} stand for one dtype each."
    )
    bindings = spec.bindings()
    if lazy or not bindings:
        what_else = "size" if bindings else "dtype"
        return wrapped(f"{what} Nothing is precompiled: every {what_else} compiles on first use.")
    if len(letters) == 1:
        listed = ", ".join(binding[0][1] for binding in bindings)
    else:
        listed = "; ".join(
            ", ".join(f"{letter} = {dtype}" for letter, dtype in binding) for binding in bindings
        )
    compiled = f"Precompiled: {listed}{known}{place.compiled_for}"
    others = "other dtypes and sizes" if sizes else "other dtypes"
    return wrapped(f"{what} {compiled}; {others} compile on first use.")
