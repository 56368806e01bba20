"""Docstrings of functions that call PyTorch operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kspec.build.package.docs.functions import form_lines, size_lines
from kspec.build.package.docs.lines import (
    SpecLocation,
    array_text,
    axis_lines,
    heading,
    indented,
    safe,
    summary,
    wrapped,
)
from kspec.build.package.docs.raw import SIZES, c_array_text, template_lines
from kspec.build.package.form_texts import FORM_SUMMARIES
from kspec.model.backward import form_gradient_fault
from kspec.model.forms.kinds import REDUCE
from kspec.model.operators import Operator
from kspec.model.signature import CParam
from kspec.spec.gradients.kernels import gradient_spec
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec


def operator_doc(
    spec: Spec, one: Operator, either: Collection[str], place: SpecLocation
) -> tuple[str, ...]:
    """Return the docstring of a function that calls an operator.

    `either` are inputs that may be tensors or numbers.
    """
    head = summary(spec) if one.form == REDUCE else [FORM_SUMMARIES[one.form]]
    lines = [*head, "", *heading("Parameters")]
    types = {param.name: param for param in spec.declaration().params or ()}
    for argument in one.arguments:
        param = types.get(argument.name)
        if param is None or argument.keyword:
            continue
        array = c_array_text(param) if isinstance(param, CParam) else array_text(param)
        kind = array.removeprefix("array ")
        what = f"tensor {kind}" if argument.is_array else f"number {kind}"
        also = " or number" if argument.is_array and argument.name in either else ""
        lines.append(f"{argument.name} : {what}{also}")
        lines += indented("Written to." if argument.written else "Input.")
    names = [argument.name for argument in one.arguments]
    if one.form != REDUCE:
        lines += form_lines(one.form, True, "tensor")
        lines += form_lines(one.form, False)
    elif isinstance(spec, ReductionSpec):
        lines += axis_lines()
    if isinstance(spec, ElementwiseSpec):
        lines += size_lines(spec, spec.size_names)
    if isinstance(spec, RawSpec):
        lines += template_lines(spec, spec.size_names)
    sizes = [name for name in ("grid", "block") if name in names]
    if sizes:
        lines.append(f"{', '.join(sizes)} : sequence of int")
        lines += indented(SIZES[tuple(sizes)])
    lines += ["", *heading("Notes"), *wrapped(f"``{one.schema}``, declared in {place}.")]
    table = getattr(spec, "backward", None)
    if isinstance(table, Mapping) and _has_gradients(spec, one.form):
        lines += wrapped(f"Differentiable with respect to {', '.join(table)}.")
    return safe(lines)


def _has_gradients(spec: Spec, form: str) -> bool:
    """Return whether a kernel with expressions for gradients has those of a form."""
    if form == REDUCE or not isinstance(spec, ReductionSpec):
        return True
    (gradients, _), own = gradient_spec(spec), spec.declaration()
    return gradients is None or not form_gradient_fault(own, gradients.declaration(), form)
