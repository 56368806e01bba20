"""Specs in, NumPy-style docstrings out, as lines that are safe between triple quotes.

What a caller needs: what the kernel computes, what each argument may be, what comes back, what
is raised, which dtypes are precompiled, and where in the project all of this is declared.
`kspec.build.package.api` has the signatures.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kspec.build.package.form_texts import FORM_SUMMARIES, form_parameters
from kspec.diagnostics import counted
from kspec.model import dtypes
from kspec.model.backward import form_gradient_fault
from kspec.model.forms.kinds import REDUCE
from kspec.model.neighbours.windows import Window
from kspec.model.operators import Operator
from kspec.model.raw.c_params import HANDLES
from kspec.model.signature import CParam, Param, Signature
from kspec.render.parameters import windows_of
from kspec.spec.gradients.kernels import gradient_spec
from kspec.spec.loader import SpecFile
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec
from kspec.spec.struct_tables import Struct

_WIDTH = 92
# Descriptions of the sizes that a call may choose.
_SIZES = {
    ("grid", "block"): "Number of blocks, and of threads in each; one to three numbers.",
    ("grid",): "Number of blocks; one to three numbers.",
    ("block",): "Number of threads of a block; one to three numbers.",
}
Lines = list[str]


@dataclass(frozen=True)
class SpecLocation:
    """Place of a declaration, ``specs/norms.toml``, line 4, and the targets of its kernel."""

    path: str
    line: int
    archs: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec_file: SpecFile, spec: Spec, archs: tuple[str, ...] = ()) -> SpecLocation:
        """Return the place of a spec in its file."""
        return cls(spec_file.path, spec_file.lines[spec.name, "name"], archs)

    @property
    def compiled_for(self) -> str:
        """The architectures, as the end of a sentence."""
        return f", for {', '.join(self.archs)}" if self.archs else ""

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}"


def package_doc(files: Sequence[tuple[str, SpecFile]]) -> tuple[str, ...]:
    """Return the docstring of a package: its modules and their kernels."""
    lines: Lines = ["Kernels that kspec generated.", ""]
    for stem, spec_file in sorted(files):
        lines += _wrapped(f"`{stem}`: {_first_line(spec_file.doc) or 'kernels'}")
        for spec in spec_file.specs:
            summary = _first_line(spec.doc)
            text = f"``{stem}.{spec.name}``: {summary}" if summary else f"``{stem}.{spec.name}``"
            lines += _wrapped(text, first="* ", rest="  ")
        lines.append("")
    return _safe(lines)


def module_doc(spec_file: SpecFile) -> tuple[str, ...]:
    """Return the docstring of a module."""
    text = textwrap.dedent(spec_file.doc).strip() or f"Kernels of {spec_file.path}."
    return _safe([*text.splitlines(), "", f"Declared in {spec_file.path}."])


def struct_doc(struct: Struct, spec_file: SpecFile) -> str:
    """Return the sentence below the dtype of a struct."""
    row = dtypes.lookup(struct.dtype)
    layout = f"{row.itemsize} bytes, aligned to {row.alignment}"
    return f"``{struct.name}``, {layout}; declared in {spec_file.path}, line {struct.line}."


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
    lines = [*_summary(spec), "", *_heading("Parameters")]
    for word, param in zip(inputs, spec.inputs, strict=True):
        if param.name in declaration.scalars:
            lines += [f"{word} : {_scalar(param)}", "    Input, one number for all elements."]
            continue
        also = "" if declaration.needs_array(param) else " or scalar"
        lines.append(f"{word} : {_array(param)}{also}")
        window = windows_of(declaration).get(param.name)
        lines += _indented(_window_text(window) if window else _input_text(param))
    if isinstance(spec, ReductionSpec):
        return _safe(lines + _reduction(spec, outputs, place))
    return _safe(lines + _elementwise(spec, outputs, sizes, place))


def _elementwise(
    spec: ElementwiseSpec, outputs: Sequence[str], sizes: Sequence[str], place: SpecLocation
) -> Lines:
    """Return the rest of an elementwise function's docstring, after the inputs."""
    lines = [*_outputs(spec.outputs, outputs, outputs_required(spec)), *_out(spec)]
    if takes_size(spec):
        lines.append("size : int, optional")
        lines += _indented("Number of loop steps; only when every array is raw.")
    lines += _windowed(spec, sizes)
    lines += [*_stream(), ""]
    returned = () if spec.no_return else spec.outputs.params
    lines += _returns(returned, outputs, spec.return_tuple)
    wrong = "Shapes do not broadcast, or the loop size is not known."
    if spec.has_core:
        wrong = "Shapes do not broadcast, or core dimensions do not match."
    lines += _generated_raises(spec, wrong)
    arrow = f"{spec.inputs} -> {spec.outputs}".strip()
    return lines + _notes(spec, f"Elementwise kernel ``{arrow}``", place)


def takes_out(spec: ElementwiseSpec | ReductionSpec) -> bool:
    """Return whether a function has the keyword `out` beside the parameters of its outputs."""
    if isinstance(spec, ElementwiseSpec) and outputs_required(spec):
        return False
    return bool(len(spec.outputs)) and spec.outputs.names != ("out",)


def takes_size(spec: ElementwiseSpec) -> bool:
    """Return whether calls may say how many elements the loop has: all arrays may be raw."""
    needed = spec.windows or any(param.core for param in spec.inputs)
    return any(param.raw for param in spec.params) and not needed


def _windowed(spec: ElementwiseSpec, sizes: Sequence[str]) -> Lines:
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
        lines += _indented(f"What lies outside of {names}; {usual} by default.")
    for word, known in zip(sizes, spec.given_sizes.values(), strict=True):
        lines.append(f"{word} : int" + (f", default {known[0]}" if len(known) == 1 else ""))
        listed = (
            f"precompiled for {', '.join(map(str, known))}" if known else "compiled on first use"
        )
        lines += _indented(f"Number that the compiler knows; {listed}.")
    return lines


def _window_text(window: Window) -> str:
    """Describe the neighbours of an element that the operation reads.

    >>> _window_text(Window("u", ((1, 1), (0, "R")), ("wrap",)))
    "Read at offsets -1 to 1 and 0 to R along its last 2 axes; 'wrap' outside."
    """
    axes = "last axis" if window.axes == 1 else f"last {window.axes} axes"
    text = f"Read at offsets {' and '.join(window.ranges)} along its {axes}"
    return text + ("." if len(window.boundaries) > 1 else f"; {window.boundaries[0]!r} outside.")


def _reduction(spec: ReductionSpec, outputs: Sequence[str], place: SpecLocation) -> Lines:
    """Return the rest of a reduction's docstring, after the inputs."""
    lines = _outputs(spec.outputs, outputs, required=False)
    lines += [*_out(spec), *_axis_and_keepdims()]
    lines += [*_stream(), "", *_returns(spec.outputs.params, outputs, False)]
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
    lines = [FORM_SUMMARIES[form], "", *_heading("Parameters")]
    for word, param in zip(inputs, spec.inputs, strict=True):
        scalar = param.name in spec.declaration().scalars
        lines += [f"{word} : {_scalar(param) if scalar else _array(param)}", "    Input."]
    lines += _form_parameters(form, True, "array")
    lines.append(f"out : {'tuple of arrays' if len(spec.outputs) > 1 else 'array'}, optional")
    lines += _indented("Outputs; new arrays by default.")
    lines += _form_parameters(form, False)
    lines += [*_stream(), "", *_returns(spec.outputs.params, spec.outputs.names, False)]
    lines += _generated_raises(spec, "Shapes do not fit.")
    return _safe(lines)


def _form_parameters(form: str, required: bool, array: str = "array") -> Lines:
    """Return the parameters of a form behind the inputs, those that it requires or the others."""
    rows = form_parameters(form, required, array)
    return [line for head, text in rows for line in (head, *_indented(text))]


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


def raw_doc(
    spec: RawSpec, words: Sequence[str], values: Sequence[str], place: SpecLocation
) -> tuple[str, ...]:
    """Return the docstring of a function that launches a raw kernel.

    `words` and `values` are the names of its parameters, and of the integers of its template.
    """
    rules = spec.launch_rules
    lines = [*_summary(spec), "", *_heading("Parameters")]
    if not rules.complete:
        lines += ["grid, block : tuple of int", *_indented(_SIZES["grid", "block"])]
    if spec.params is None:
        lines.append("args : sequence")
        lines += _indented(
            "Arrays pass their address; Python int, float, complex and bool pass 8, 8, 16 and "
            "1 bytes, NumPy scalars their own. Nothing is checked."
        )
    shapes = dict(rules.returns)
    for word, param in zip(words, spec.params or (), strict=True):
        default = (
            f", default ``{spec.defaults[param.name]}``" if param.name in spec.defaults else ""
        )
        if param.name in shapes:
            lines.append(f"{word} : {_c_array(param)}, optional")
            shape = f"a new array of shape ``{tuple_text(shapes[param.name])}`` by default."
            lines += _indented(f"{_c_text(param)[:-1]}; {shape}")
            continue
        lines += [f"{word} : {_c_type(spec, param)}{default}", *_indented(_c_text(param))]
    lines += _template_values(spec, values)
    if rules.complete:
        free = [one for one in ("grid", "block") if one not in rules.fixed]
        for axis in free:
            texts = rules.grid if axis == "grid" else rules.block
            lines.append(f"{axis} : tuple of int, default ``{tuple_text(texts)}``")
        lines += _indented(_SIZES[tuple(free)]) if free else []
    if "shared_mem" not in rules.fixed:
        default = f"``{rules.shared_mem}``" if rules.shared_mem else "0"
        lines.append(f"shared_mem : int, default {default}")
        lines += _indented("Dynamic shared memory in bytes.")
    lines += [*_stream(), "", *_raw_returns(spec, words), *_heading("Raises")]
    lines += ["ArgumentTypeError", "    An argument does not fit; also a `TypeError`."]
    if values:
        lines += ["InstanceNotBuilt", "    No name expression has these types and values."]
    lines += ["LaunchError", "    Grid, block or shared memory are impossible on the device."]
    if shapes:
        lines += ["ShapeError", "    A given output has another shape; also a `ValueError`."]
    lines.append("")
    lines += _heading("Notes")
    lines += _wrapped(f"Raw kernel, declared in {place}.")
    if spec.source:
        lines += _wrapped(f"Its source is {spec.source}, beside the spec.")
    launched = [
        *(["cooperatively"] if spec.cooperative else []),
        *([f"in clusters of {spec.cluster}"] if spec.cluster else []),
        *(["as a programmatic dependent"] if spec.pdl else []),
    ]
    if launched:
        lines += _wrapped(f"It is launched {', '.join(launched)}.")
    for one in rules.fixed:
        text = rules.shared_mem if one == "shared_mem" else tuple_text(getattr(rules, one))
        what = "dynamic shared memory" if one == "shared_mem" else one
        lines += _wrapped(f"Its {what} is fixed: ``{text}``.")
    names = ", ".join(f"``{name}``" for name in spec.declaration().name_expressions)
    lines += _wrapped(f"Precompiled: {names}{place.compiled_for}.")
    return _safe(lines)


def operator_doc(
    spec: Spec, one: Operator, either: Collection[str], place: SpecLocation
) -> tuple[str, ...]:
    """Return the docstring of a function that calls an operator.

    `either` are inputs that may be tensors or numbers.
    """
    summary = _summary(spec) if one.form == REDUCE else [FORM_SUMMARIES[one.form]]
    lines = [*summary, "", *_heading("Parameters")]
    types = {param.name: param for param in spec.declaration().params or ()}
    for argument in one.arguments:
        param = types.get(argument.name)
        if param is None or argument.keyword:
            continue
        if isinstance(param, CParam):
            row = dtypes.from_ctype(param.type)
            kind = f"of {row.name if row else param.type}"
        else:
            kind = _array(param).removeprefix("array ")
        what = f"tensor {kind}" if argument.is_array else f"number {kind}"
        also = " or number" if argument.is_array and argument.name in either else ""
        lines.append(f"{argument.name} : {what}{also}")
        lines += _indented("Written to." if argument.written else "Input.")
    names = [argument.name for argument in one.arguments]
    if one.form != REDUCE:
        lines += _form_parameters(one.form, True, "tensor")
        lines += _form_parameters(one.form, False)
    elif isinstance(spec, ReductionSpec):
        lines += _axis_and_keepdims()
    if isinstance(spec, ElementwiseSpec):
        lines += _windowed(spec, spec.size_names)
    if isinstance(spec, RawSpec):
        lines += _template_values(spec, spec.size_names)
    sizes = [name for name in ("grid", "block") if name in names]
    if sizes:
        lines.append(f"{', '.join(sizes)} : sequence of int")
        lines += _indented(_SIZES[tuple(sizes)])
    lines += ["", *_heading("Notes"), *_wrapped(f"``{one.schema}``, declared in {place}.")]
    table = getattr(spec, "backward", None)
    if isinstance(table, Mapping) and _has_gradients(spec, one.form):
        lines += _wrapped(f"Differentiable with respect to {', '.join(table)}.")
    return _safe(lines)


def _has_gradients(spec: Spec, form: str) -> bool:
    """Return whether a kernel with expressions for gradients has those of a form."""
    if form == REDUCE or not isinstance(spec, ReductionSpec):
        return True
    (gradients, _), own = gradient_spec(spec), spec.declaration()
    return gradients is None or not form_gradient_fault(own, gradients.declaration(), form)


def tuple_text(texts: Sequence[str]) -> str:
    """Return expressions as the tuple that they make.

    >>> tuple_text(["ceil_div(n, 256)"])
    '(ceil_div(n, 256),)'
    """
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _summary(spec: Spec) -> Lines:
    text = textwrap.dedent(spec.doc).strip()
    return text.splitlines() if text else [f"Run the {spec.kind} kernel ``{spec.name}``."]


def _heading(title: str) -> Lines:
    return [title, "-" * len(title)]


def _first_line(doc: str) -> str:
    return doc.strip().split("\n", 1)[0].strip()


def _array(param: Param) -> str:
    """Return the type of an array in words, with its axes where they are declared.

    >>> _array(Param("T", "A", core=("n", "n"))), _array(Param("T", "w", raw=True, ndim=2))
    ('array of T, shape (..., n, n)', 'array of T with 2 dimensions')
    """
    text = f"array of {param.type}"
    if param.core:
        return f"{text}, shape (..., {', '.join(param.core)})"
    if param.ndim is not None:
        return f"{text} with {counted(param.ndim, 'dimension')}"
    return text


def _scalar(param: Param) -> str:
    return "scalar" if param.is_placeholder else f"scalar ({param.type})"


def _input_text(param: Param) -> str:
    if param.raw:
        return "Indexed by the kernel itself: takes no part in broadcasting."
    if param.non_const:
        return "Input that the kernel also writes to."
    return "Input."


def outputs_required(spec: ElementwiseSpec | ReductionSpec) -> bool:
    """Whether a new output could not be made: no input decides its dtype."""
    return not set(spec.outputs.placeholders) <= set(spec.inputs.placeholders)


def _outputs(params: Signature, words: Sequence[str], required: bool) -> Lines:
    lines: Lines = []
    for word, param in zip(words, params, strict=True):
        lines.append(f"{word} : {_array(param)}{'' if required else ', optional'}")
        default = "" if required else "; a new array by default"
        raw = " Indexed by the kernel itself." if param.raw else ""
        lines += _indented(f"Output{default}.{raw}")
    return lines


def _out(spec: ElementwiseSpec | ReductionSpec) -> Lines:
    """Describe the keyword `out`, if there is one."""
    if not takes_out(spec):
        return []
    many = len(spec.outputs) > 1
    text = f"The output{'s' if many else ''}, by keyword instead of by position."
    return [f"out : {'tuple of arrays' if many else 'array'}, optional", *_indented(text)]


def _axis_and_keepdims() -> Lines:
    lines = ["axis : int or sequence of int, optional"]
    lines += _indented("Axes to reduce; all of them by default, none for ``()``.")
    return [*lines, "keepdims : bool, default False", "    Keep reduced axes with extent 1."]


def _stream() -> Lines:
    text = "Where to queue the kernel; the current stream of the first array's library by default."
    return ["stream : stream, optional", *_indented(text)]


def _returns(params: Sequence[Param], words: Sequence[str], always_tuple: bool) -> Lines:
    if not params:
        return []
    lines = _heading("Returns")
    if len(params) > 1 or always_tuple:
        lines.append("tuple of arrays")
        for word, param in zip(words, params, strict=True):
            lines += _indented(f"`{word}`, an {_array(param)}.")
    else:
        lines += [_array(params[0]), *_indented(f"`{words[0]}`.")]
    return [*lines, *_indented("Arrays are of the library of the first array argument."), ""]


def _generated_raises(spec: ElementwiseSpec | ReductionSpec, shapes: str) -> Lines:
    lines = _heading("Raises")
    lines += ["ArgumentTypeError", "    An argument has the wrong dtype or lives on another"]
    lines[-1] += " device; also a `TypeError`."
    lines += ["ShapeError", *_indented(f"{shapes[:-1]}; also a `ValueError`.")]
    sizes = bool(spec.all_sizes)
    what = "dtypes or sizes" if sizes else "dtypes"
    if spec.placeholders or sizes:
        lines.append("SpecializationNotBuilt")
        lines += _indented(f"These {what} are not precompiled and ``KSPEC_JIT=never``.")
    return lines if isinstance(spec, ReductionSpec) else [*lines, ""]


def _notes(spec: ElementwiseSpec | ReductionSpec, what: str, place: SpecLocation) -> Lines:
    lines = [*_heading("Notes"), *_wrapped(f"{what}, declared in {place}::"), ""]
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
        return _wrapped(f"{compiled}.")
    what = (
        f"``{letters[0]}`` stands for one dtype."
        if len(letters) == 1
        else f"{', '.join(f'``{letter}``' for letter in letters)} stand for one dtype each."
    )
    bindings = spec.bindings()
    if lazy or not bindings:
        what_else = "size" if bindings else "dtype"
        return _wrapped(f"{what} Nothing is precompiled: every {what_else} compiles on first use.")
    if len(letters) == 1:
        listed = ", ".join(binding[0][1] for binding in bindings)
    else:
        listed = "; ".join(
            ", ".join(f"{letter} = {dtype}" for letter, dtype in binding) for binding in bindings
        )
    compiled = f"Precompiled: {listed}{known}{place.compiled_for}"
    others = "other dtypes and sizes" if sizes else "other dtypes"
    return _wrapped(f"{what} {compiled}; {others} compile on first use.")


def _template_values(spec: RawSpec, words: Sequence[str]) -> Lines:
    """Return the keyword arguments that are integers of the kernel's template."""
    declaration, lines = spec.declaration(), list[str]()
    for word, name in zip(words, declaration.values, strict=True):
        known = declaration.values[name]
        default = spec.defaults.get(name, declaration.implied.get(name))
        text = f"``{default}``" if isinstance(default, str) else str(default)
        lines.append(f"{word} : int" + ("" if default is None else f", default {text}"))
        lines += _indented(f"Number that the compiler knows: {_listed(list(map(str, known)))}.")
    return lines


def _listed(words: Sequence[str]) -> str:
    """Return words as a sentence has them: ``16, 32 or 64``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _raw_returns(spec: RawSpec, words: Sequence[str]) -> Lines:
    """Return the section about the arrays that a raw kernel returns."""
    pairs = zip(words, spec.params or (), strict=True)
    rows = {param.name: (word, param) for word, param in pairs}
    found = [rows[name] for name in spec.returns]
    if not found:
        return []
    lines = _heading("Returns")
    if len(found) > 1:
        lines.append("tuple of arrays")
        for word, param in found:
            lines += _indented(f"`{word}`, an {_c_array(param)}.")
    else:
        word, param = found[0]
        lines += [_c_array(param), *_indented(f"`{word}`.")]
    return [*lines, *_indented("New arrays are of the library of the first array argument."), ""]


def _c_array(param: CParam) -> str:
    row = dtypes.from_ctype(param.type)
    return f"array of {row.name if row else param.type}"


def _c_type(spec: RawSpec, param: CParam) -> str:
    row = dtypes.from_ctype(param.type)
    if param.pointer:
        return f"{_c_array(param)}{', optional' if param.nullable else ''}"
    if param.type in HANDLES:
        return HANDLES[param.type]
    if param.type in spec.structs:
        return f"{param.type}, or tuple of its fields"
    if row is None and not param.is_placeholder:
        return param.type
    kind = "int" if row and row.kind in "iu" else "scalar"
    return f"{kind} ({row.name if row else param.type})"


def _c_text(param: CParam) -> str:
    if not param.pointer:
        return f"``{param}``."
    null = "; a null pointer by default" if param.nullable else ""
    return f"``{param}``, {'read' if param.const else 'written'}; C-contiguous{null}."


def _wrapped(text: str, first: str = "", rest: str = "") -> Lines:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indented(text: str) -> Lines:
    return _wrapped(text, "    ", "    ")


def _safe(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines as they stand in a docstring: escaped, without blank ends."""
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return tuple(text.splitlines())
