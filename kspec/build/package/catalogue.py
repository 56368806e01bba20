"""A package's kernels as one HTML page that needs nothing else: a plan in, text out.

Everything a caller asks of a kernel: its signature, what it computes, its arguments with dtypes and
shapes, what is precompiled, a call to copy, and its spec and CUDA text.  Here are the strings, as
frozen contexts; the skeleton is ``templates/catalogue.html.j2``.  All but prose is made of the
specs' data; prose is read by `kspec.build.package.markup`, code by `kspec.build.package.highlight`.
Same specs, same bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kspec.build.package import api
from kspec.build.package.contexts import FunctionContext
from kspec.build.package.docs.functions import computation
from kspec.build.package.docs.lines import SpecLocation, tuple_text
from kspec.build.package.highlight import CLASSES, Code, Html
from kspec.build.package.markup import render_doc, summary_of
from kspec.build.plan import BuildPlan, Unit
from kspec.build.properties import examples
from kspec.build.tools import show
from kspec.dataclass import dataclass
from kspec.errors import SpecError, counted
from kspec.files import naming
from kspec.model import dtypes
from kspec.model.forms.kinds import SCAN
from kspec.model.signature import CParam, Param
from kspec.render.environment import render_template
from kspec.render.parameters import windows_of
from kspec.runtime.memory import numpy_dtype
from kspec.spec.models import RawSpec, ReductionSpec, Spec
from kspec.spec.neighbours.windows import choices

FILE_NAME = "index.html"


@dataclass(frozen=True)
class ArgumentRow:
    """One row of a kernel's table of arguments."""

    name: str
    type: str
    shape: str
    role: str


@dataclass(frozen=True)
class FormEntry:
    """One more form of a reduction, a method of its function."""

    name: str
    summary: Html
    signature: Code


@dataclass(frozen=True)
class Kernel:
    """One kernel of the page; `steps` are what it computes, name by name."""

    name: str
    anchor: str
    kind: str
    summary: Html
    doc: Html
    signature: Code
    forms: tuple[FormEntry, ...]
    steps: tuple[tuple[str, Code], ...]
    arguments: tuple[ArgumentRow, ...]
    coverage: tuple[str, ...]
    archs: str
    example: Code
    place: str
    spec: Code
    source: Code


@dataclass(frozen=True)
class Module:
    """One module of the page."""

    name: str
    path: str
    doc: Html
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True)
class CataloguePage:
    """Context of ``catalogue.html.j2``."""

    title: str
    modules: tuple[Module, ...]
    token_classes: tuple[str, ...] = CLASSES


def render_catalogue(plan: BuildPlan) -> str:
    """Return the page of a project's package.

    Raises
    ------
    RenderError
        If the template is broken.
    """
    return render_template("catalogue.html.j2", {"page": make_page(plan)})


def write_catalogue(plan: BuildPlan, output: Path) -> Path:
    """Write the page to a file, or into a folder, and return the file."""
    path = output if output.suffix in (".html", ".htm") else output / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    page = render_catalogue(plan)
    with naming(path):
        path.write_text(page, encoding="utf-8", newline="\n")
    return path


def make_page(plan: BuildPlan) -> CataloguePage:
    """Return the contents of the page."""
    modules = tuple(
        Module(
            unit.stem,
            unit.spec_file.path,
            render_doc(unit.spec_file.doc),
            tuple(_kernels(plan, unit)),
        )
        for unit in plan.units
    )
    return CataloguePage(plan.settings.package_name, modules)


def _kernels(plan: BuildPlan, unit: Unit) -> Iterator[Kernel]:
    texts = _spec_texts(plan, unit)
    functions = api.functions_of(unit)
    for spec, function in zip(unit.spec_file.specs, functions, strict=True):
        source = show.show_kernel(plan, f"{unit.stem}.{spec.name}", "source").strip("\n")
        yield Kernel(
            function.name,
            f"{unit.stem}.{function.name}",
            spec.kind,
            summary_of(spec.doc),
            render_doc(spec.doc),
            _signature(spec, function),
            tuple(_forms(function)),
            tuple((step, Code(text, "cuda")) for step, text in computation(spec)),
            tuple(_arguments(spec)),
            tuple(_coverage(spec)),
            ", ".join(unit.archs),
            Code(_example(plan.settings.import_name, unit, spec, function), "python"),
            str(SpecLocation.of(unit.spec_file, spec)),
            Code(texts[spec.name], "toml"),
            Code(source, "cuda"),
        )


def _forms_only(spec: Spec) -> bool:
    """Return whether the function itself refuses every call, because its forms take them."""
    return isinstance(spec, ReductionSpec) and spec.declaration().forms_only


def _signature(spec: Spec, function: FunctionContext) -> Code:
    """Return the signatures of a function; of one that only has forms, none."""
    shown = () if _forms_only(spec) else function.overloads or (function,)
    texts = (_signature_text(function.name, one.parameters, one.returns) for one in shown)
    return Code("\n".join(texts), "python")


def _forms(function: FunctionContext) -> Iterator[FormEntry]:
    """Yield the methods of a reduction, with the first sentence of each docstring."""
    for one in function.forms:
        name = f"{function.name}.{one.name}"
        text = _signature_text(name, one.parameters[1:], one.returns)  # without self
        yield FormEntry(name, summary_of("\n".join(one.doc)), Code(text, "python"))


def _signature_text(name: str, parameters: Sequence[str], returns: str) -> str:
    lines = "".join(f"    {text},\n" for text in parameters)
    return f"{name}(\n{lines}) -> {returns}"


def _arguments(spec: Spec) -> Iterator[ArgumentRow]:
    """Yield the rows of a kernel's table of arguments."""
    if isinstance(spec, RawSpec):
        for param in spec.params or ():
            yield ArgumentRow(param.name, *_raw_row(spec, param))
        for name, known in spec.declaration().values.items():
            listed = " or ".join(map(str, known))
            yield ArgumentRow(name, "int", listed, f"of the template{_default_of(spec, name)}")
        return
    scalars = spec.declaration().scalars
    windows = windows_of(spec.declaration())
    for one in spec.inputs:
        others = f"{_core(one)}, broadcast with the others before its core dimensions"
        others = others if one.core else "broadcast with the others"
        shape = "number" if one.name in scalars else _shape(one, others)
        if one.name in windows:
            read = ", ".join(windows[one.name].ranges)
            shape = f"broadcast with the others, but for the axes read at offsets ({read})"
        role = "input, written too" if one.non_const else "input"
        yield ArgumentRow(one.name, one.type, shape, role)
    reducing = isinstance(spec, ReductionSpec)
    made = "the inputs' without the reduced axes" if reducing else "the broadcast shape"
    for one in spec.outputs:
        shape = f"{_core(one)}, {made} before its core dimensions" if one.core else made
        yield ArgumentRow(one.name, one.type, _shape(one, shape), "output")


def _shape(param: Param, otherwise: str) -> str:
    if not param.raw:
        return otherwise
    count = "any" if param.ndim is None else counted(param.ndim, "dimension")
    return f"{count}: the kernel indexes it"


def _core(param: Param) -> str:
    """Return the shape of an argument with core dimensions."""
    return f"(..., {', '.join(param.core)})"


def _raw_row(spec: RawSpec, param: CParam) -> tuple[str, str, str]:
    default = _default_of(spec, param.name)
    row = dtypes.from_ctype(param.type)
    name = row.name if row else param.type
    shape = dict(spec.launch_rules.returns).get(param.name)
    if shape is not None:
        return name, tuple_text(shape), "returned"
    if param.pointer:
        default = ", default nullptr" if param.nullable else ""
        return name, "any, C-contiguous", ("read" if param.const else "written") + default
    return name, "number" if row or param.is_placeholder else "value", f"input{default}"


def _default_of(spec: RawSpec, name: str) -> str:
    default = spec.defaults.get(name, spec.declaration().implied.get(name))
    return "" if default is None else f", default {default}"


def _coverage(spec: Spec) -> Iterator[str]:
    """Yield the precompiled specializations: bindings of type placeholders, or name expressions."""
    if isinstance(spec, RawSpec):
        yield from spec.declaration().name_expressions
        return
    known = spec.all_sizes
    if not spec.placeholders and not known:
        yield "all dtypes it is declared for"
    else:
        rows = choices(known)
        for binding, sizes in itertools.product(spec.bindings(), rows):
            pairs = (*binding, *sizes.items())
            yield ", ".join(f"{name} = {value}" for name, value in pairs)


def _spec_texts(plan: BuildPlan, unit: Unit) -> dict[str, str]:
    """Return the part of the spec file that declares each kernel."""
    file = unit.spec_file
    text = (plan.settings.project / file.path).read_bytes().decode("utf-8")
    lines = text.replace("\r\n", "\n").split("\n")
    starts = {spec.name: file.lines[spec.name, "name"] for spec in file.specs}
    edges = sorted({*starts.values(), *(struct.line for struct in file.structs), len(lines) + 1})
    return {
        name: "\n".join(lines[start - 1 : edges[edges.index(start) + 1] - 1]).strip("\n")
        for name, start in starts.items()
    }


def _example(package: str, unit: Unit, spec: Spec, function: FunctionContext) -> str:
    """Return a call to copy: with the arguments of the spec's example; empty without one."""
    called = f"{unit.stem}.{function.name}"
    if isinstance(spec, ReductionSpec) and _forms_only(spec):
        if SCAN not in spec.forms:
            return ""  # other forms take more than the example says
        called += f".{SCAN}"
    try:
        call = examples.make_call(spec)
    except SpecError:  # none, or not one that says enough
        return ""
    written = {name: _name(name) for name in call.values}
    lines = ["import numpy as np", f"from {package} import {unit.stem}", ""]
    lines += ["rng = np.random.default_rng(0)"]
    for name, value in call.values.items():
        lines.append(f"{written[name]} = {_value(value, unit, spec)}")
    arguments = [written[one] if isinstance(one, str) else repr(one) for one in call.order]
    if isinstance(spec, RawSpec) and spec.params is None:
        arguments = [f"({', '.join(arguments)},)"]
    arguments = [*map(repr, examples.launch_sizes(spec)), *arguments]
    # A number that a keyword passes is among the values; others are the call's own.
    for name, value in call.keywords.items():
        if value is not None and value is not False:
            arguments.append(f"{name}={written.get(name, repr(value))}")
    result = f"{called}({', '.join(arguments)})"
    if call.written:
        return "\n".join([*lines, result])
    names = ", ".join(f"{_name(param.name)}_new" for param in _results(spec))
    return "\n".join([*lines, f"{names} = {result}"])


def _results(spec: Spec) -> tuple[Param | CParam, ...]:
    if isinstance(spec, RawSpec):
        params = {param.name: param for param in spec.params or ()}
        return tuple(params[name] for name in spec.returns)
    return spec.outputs.params


def _name(name: str) -> str:
    return f"{name}_" if name in ("np", "rng") else name


def _value(value: object, unit: Unit, spec: Spec) -> str:
    if isinstance(value, np.void):
        return repr(value.item())
    if not isinstance(value, np.ndarray):
        return repr(value)
    shape = repr(value.shape)
    if value.dtype.names is not None:
        structs = spec.structs if isinstance(spec, RawSpec) else {}
        layouts = {name: numpy_dtype(layout) for name, layout in structs.items()}
        name = next((one for one, layout in layouts.items() if layout == value.dtype), "")
        return (
            f"np.zeros({shape}, {unit.stem}.{name})"
            if name
            else f"np.zeros({shape}, {value.dtype})"
        )
    if not value.any():
        return f'np.zeros({shape}, "{value.dtype.name}")'
    low, high = (spec.example.low, spec.example.high) if spec.example else (-1.0, 1.0)
    drawn = f"rng.uniform({low:g}, {high:g}, {shape})"
    if value.dtype.kind == "c":
        drawn = f"({drawn} + 1j * {drawn})"
    if value.dtype.kind == "b":
        drawn = f"rng.integers(0, 2, {shape})"
    if value.dtype.kind in "iu":
        first, last = examples.integer_span(value.dtype.kind, (low, high))
        drawn = f"rng.integers({first}, {last + 1}, {shape})"
    return f'{drawn}.astype("{value.dtype.name}")'
