"""Specs in, the text of typed and documented Python modules out.

::

    def l2norm(x: ArrayT, y: ArrayT | None = None, *, axis: Axis | None = None, ...) -> ArrayT:

Here are the strings, as frozen contexts; the skeletons are ``templates/package/*.py.j2``.  The
docstrings come from `kspec.build.package.docs`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import keyword
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kspec.build.package import docs, typed
from kspec.build.package.form_texts import form_argument
from kspec.build.package.typed import ANY, SAME, ArrayTypes
from kspec.build.plan import BuildPlan, Unit
from kspec.model import dtypes
from kspec.model.declaration import PLACES
from kspec.model.forms.options import FORM_OPTIONS
from kspec.model.signature import CParam, Param
from kspec.render.environment import render_template
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec

_WORD = re.compile(r"[A-Za-z_]\w*")
# Names that generated modules use for themselves.
_TYPES = ("AnyArray", "ArrayT", "Axis", "Dim3", "Integer", "Scalar", "Stream")
_HELPERS = ("ABSENT", "given", "open_module", "struct_dtype")
_OVERLOADING = ("Any", "Literal", "NDArray", "TYPE_CHECKING", "np", "overload", *typed.VARIABLES)
_BUILTINS = ("bool", "int", "tuple")
_MODULE_NAMES = frozenset(
    (
        *_TYPES,
        *_HELPERS,
        *_BUILTINS,
        *_OVERLOADING,
        "Sequence",
        "annotations",
        "_KERNELS",
        "_result",
    )
)

_OUT = {"out": "out: {} | None = None"}
_REDUCTION_KEYWORDS = {
    "axis": "axis: Axis | None = None",
    "keepdims": "keepdims: bool = False",
}


@dataclass(frozen=True)
class Overload:
    """One signature of a function that has several."""

    parameters: tuple[str, ...]
    returns: str


@dataclass(frozen=True)
class FormContext:
    """One form of a reduction, a method of the object that is called.

    Attributes
    ----------
    name, parameters, returns, doc, body, overloads
        As those of `FunctionContext`.
    """

    name: str
    parameters: tuple[str, ...]
    returns: str
    doc: tuple[str, ...]
    body: tuple[str, ...]
    overloads: tuple[Overload, ...] = ()


@dataclass(frozen=True)
class FunctionContext:
    """One generated function.

    Attributes
    ----------
    name : str
        Its Python name.
    kernel : str
        The kernel it calls.
    opener : str
        Method of `GeneratedModule` that returns it.
    callee : str
        Private name of the runtime's callable.
    parameters : tuple of str
        With annotations and defaults; ``"*"`` among them.
    returns : str
        Annotation of the result.
    doc : tuple of str
        Lines of the docstring.
    body : tuple of str
        Statements.
    overloads : tuple of Overload
        What type checkers see instead of the signature, if dtypes of results differ.
    forms : tuple of FormContext
        Other forms; with any, the function is an object of a class of its own.
    class_name : str
        Name of that class.
    """

    name: str
    kernel: str
    opener: str
    callee: str
    parameters: tuple[str, ...]
    returns: str
    doc: tuple[str, ...]
    body: tuple[str, ...]
    overloads: tuple[Overload, ...] = ()
    forms: tuple[FormContext, ...] = ()
    class_name: str = ""

    @property
    def signature(self) -> str:
        """The signature in one line, for people."""
        shown = self.overloads[-1] if self.overloads else self
        return f"{self.name}({', '.join(shown.parameters)}) -> {shown.returns}"


@dataclass(frozen=True)
class StructContext:
    """One dtype of a generated module: its name, its layout in a string literal, and its doc."""

    name: str
    literal: str
    doc: str


@dataclass(frozen=True)
class ModuleContext:
    """Context of ``module.py.j2``."""

    stem: str
    doc: tuple[str, ...]
    names: tuple[str, ...]
    imports: tuple[str, ...]
    structs: tuple[StructContext, ...]
    functions: tuple[FunctionContext, ...]


@dataclass(frozen=True)
class PackageContext:
    """Context of ``__init__.py.j2``."""

    doc: tuple[str, ...]
    names: tuple[str, ...]
    modules: tuple[str, ...]
    kernels: tuple[str, ...]


@dataclass
class _FreeNames:
    """Hands out Python names, each once."""

    taken: set[str] = field(default_factory=lambda: set(_MODULE_NAMES))

    def take(self, wish: str) -> str:
        """Return `wish`, with underscores added until it is a free name."""
        name = wish
        while keyword.iskeyword(name) or name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def render_module(unit: Unit) -> str:
    """Return the Python module of one spec file."""
    return render_text("module.py.j2", unit.spec_file.path, module_context(unit))


def render_package(plan: BuildPlan) -> str:
    """Return the ``__init__.py`` of a package."""
    modules = tuple(sorted(unit.stem for unit in plan.units))
    kernels = [
        f"{unit.stem}.{function.name}" for unit in plan.units for function in functions_of(unit)
    ]
    context = PackageContext(
        doc=docs.package_doc([(unit.stem, unit.spec_file) for unit in plan.units]),
        names=tuple(sorted([*modules, "kernel_names"])),
        modules=modules,
        kernels=tuple(sorted(kernels)),
    )
    return render_text("__init__.py.j2", f"{plan.settings.specs}/*.toml", context)


def module_context(unit: Unit) -> ModuleContext:
    """Return the strings of one module."""
    functions, structs = functions_of(unit), structs_of(unit)
    return ModuleContext(
        stem=unit.stem,
        doc=docs.module_doc(unit.spec_file),
        names=tuple(sorted([*(one.name for one in functions), *(one.name for one in structs)])),
        imports=_imports(functions, structs),
        structs=structs,
        functions=functions,
    )


def structs_of(unit: Unit) -> tuple[StructContext, ...]:
    """Return the dtypes of one module, in the order of its spec file."""
    names = _module_names(unit)
    return tuple(
        StructContext(names[one.name], _literal(one.dtype), docs.struct_doc(one, unit.spec_file))
        for one in unit.spec_file.structs
    )


def _module_names(unit: Unit) -> dict[str, str]:
    """Return the Python names of a module's kernels and structs."""
    file = unit.spec_file
    declared = [*(spec.name for spec in file.specs), *(struct.name for struct in file.structs)]
    names = _FreeNames()
    return {name: names.take(name) for name in declared}


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def functions_of(unit: Unit) -> tuple[FunctionContext, ...]:
    """Return the functions of one module, in the order of its spec file."""
    specs = unit.spec_file.specs
    taken = _module_names(unit)
    module = _FreeNames()
    module.taken |= set(taken.values())
    names = [taken[spec.name] for spec in specs]
    callees = [module.take(f"_{spec.name}") for spec in specs]
    functions = []
    for spec, name, callee in zip(specs, names, callees, strict=True):
        place = docs.SpecLocation.of(unit.spec_file, spec, unit.archs)
        one = _function(spec, name, callee, place)
        if one.forms:
            camel = "".join(part.capitalize() for part in name.split("_"))
            one = replace(one, class_name=module.take(f"_{camel}"))
        functions.append(one)
    return tuple(functions)


def render_text(template: str, origin: str, context: object) -> str:
    """Return a generated Python file: what a template makes of a context, sealed.

    Raises
    ------
    RenderError
        If the template is broken.
    """
    body = render_template(f"package/{template}", {"module": context}, origin)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return (
        f"# Generated by kspec from {origin}. Do not edit; `kspec build` writes it.\n"
        f"# sha256 of the lines below: {digest}\n{body}"
    )


def _imports(
    functions: Sequence[FunctionContext], structs: Sequence[StructContext]
) -> tuple[str, ...]:
    """Return the import lines that functions and dtypes need, in isort's order."""
    words = {word for function in functions for word in _words(function)}
    words |= {"struct_dtype"} if structs else set()
    only_types = {word for word in words if word in (*typed.VARIABLES, "NDArray", "np")}
    several = any(function.overloads for function in functions)
    lines = ["from collections.abc import Sequence"] if "Sequence" in words else []
    names = [
        *(["TYPE_CHECKING"] if only_types else []),
        *(["Any"] if "Any" in words else []),
        *(["Literal"] if "Literal" in words else []),
        *(["overload"] if several else []),
    ]
    lines += [f"from typing import {', '.join(names)}"] if names else []
    lines += [""] if lines else []
    helpers = [name for name in _HELPERS if name == "open_module" or name in words]
    lines.append(f"from kspec.runtime.package import {', '.join(helpers)}")
    types = [name for name in _TYPES if name in words]
    if types:
        lines.append(f"from kspec.typing import {', '.join(types)}")
    return (*lines, *_type_imports(only_types))


def _type_imports(words: Container[str]) -> Iterator[str]:
    """Yield imports that only type checkers read, so that importing the module stays fast."""
    variables = [name for name in typed.VARIABLES if name in words]
    if "NDArray" in words:
        yield from ("", "if TYPE_CHECKING:")
        yield from ["    import numpy as np"] if "np" in words else []
        yield "    from numpy.typing import NDArray"
        yield from ["", f"    from kspec.typing import {', '.join(variables)}"] if variables else []


def _words(function: FunctionContext) -> Iterator[str]:
    """Yield the identifiers in a function's annotations and statements."""
    signatures: list[FunctionContext | Overload | FormContext] = [function, *function.overloads]
    signatures += function.forms
    signatures += [one for form in function.forms for one in form.overloads]
    for text in (*function.body, *(text for one in signatures for text in one.parameters)):
        yield from _WORD.findall(text)
    for one in signatures:
        yield from _WORD.findall(one.returns)


def _function(spec: Spec, name: str, callee: str, place: docs.SpecLocation) -> FunctionContext:
    if isinstance(spec, RawSpec):
        return _raw(spec, name, callee, place)
    scalars = spec.declaration().scalars
    inputs, outputs = _python_names(spec.inputs), _python_names(spec.outputs)
    result = _Result.of(spec)

    def parameters(types: ArrayTypes) -> tuple[str, ...]:
        texts = _inputs(spec, inputs, types)
        default = "" if result.required else " | None = None"
        for word, param in zip(outputs, spec.outputs, strict=True):
            texts.append(f"{word}: {types.of(param)}{default}")
        keywords = [text.format(result.arrays(types)) for text in result.keywords.values()]
        return (*texts, "*", *keywords, "stream: Stream | None = None")

    given = outputs if result.required else _given(inputs, outputs)
    # A parameter has another name where that of the keyword means something in the module.
    keywords = [f"{key}={text.partition(':')[0]}" for key, text in result.keywords.items()]
    keywords.append("stream=stream")
    call = _call(callee, [*inputs, *given, *keywords])
    doc = docs.generated_doc(spec, inputs, outputs, place, _size_names(spec))
    ways = typed.signatures([one for one in spec.inputs if one.name not in scalars], spec.outputs)
    several: tuple[Overload, ...] = ()
    shown, returns = SAME, result.type(SAME)
    if len(ways) > 1:
        several = tuple(Overload(parameters(types), result.type(types)) for types in ways)
        # What runs takes and returns arrays of any kind; the overloads say which.
        shown, returns = ANY, "None" if several[0].returns == "None" else "Any"
    return FunctionContext(
        name,
        spec.name,
        spec.kind,
        callee,
        parameters(shown),
        returns,
        doc,
        _body(call, returns),
        several,
        tuple(_form(spec, form, callee, ways) for form in _forms(spec)),
    )


def _inputs(
    spec: ElementwiseSpec | ReductionSpec, words: Sequence[str], types: ArrayTypes
) -> list[str]:
    """Return the parameters of a function that are inputs, under their names in Python."""
    declaration, texts = spec.declaration(), []
    for word, param in zip(words, spec.inputs, strict=True):
        also = "" if declaration.needs_array(param) else " | Scalar"
        scalar = param.name in declaration.scalars
        texts.append(f"{word}: {'Scalar' if scalar else types.of(param) + also}")
    return texts


def _forms(spec: ElementwiseSpec | ReductionSpec) -> tuple[str, ...]:
    """Return the forms beside that of the kernel itself."""
    return spec.declaration().forms if isinstance(spec, ReductionSpec) else ()


def _form(
    spec: ElementwiseSpec | ReductionSpec, form: str, callee: str, ways: Sequence[ArrayTypes]
) -> FormContext:
    words = _python_names(spec.inputs)
    required, others = (
        [one for one in FORM_OPTIONS[form] if one.is_required == wanted] for wanted in (True, False)
    )

    def signature(types: ArrayTypes) -> Overload:
        result = types.result(spec.outputs.params, False, False)
        keywords = [f"out: {result} | None = None", *map(form_argument, others)]
        keywords.append("stream: Stream | None = None")
        positional = (*_inputs(spec, words, types), *map(form_argument, required))
        return Overload(("self", *positional, "*", *keywords), result)

    several = tuple(map(signature, ways)) if len(ways) > 1 else ()
    shown = signature(ANY if several else SAME)
    returns = "Any" if several else shown.returns
    passed = [one.name for one in required]
    named = ["out", *(one.name for one in others), "stream"]
    call = _call(f"{callee}.{form}", [*words, *passed, *(f"{one}={one}" for one in named)])
    return FormContext(
        form,
        shown.parameters,
        returns,
        docs.form_doc(spec, form, words),
        _body(call, returns),
        several,
    )


@dataclass(frozen=True)
class _Result:
    """The result of a generated function, and the keywords that only its kind has."""

    outputs: tuple[Param, ...]
    required: bool = False
    nothing: bool = False
    always_tuple: bool = False
    keywords: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: ElementwiseSpec | ReductionSpec) -> _Result:
        """Return the result of a kernel."""
        outputs, out = spec.outputs.params, _OUT if docs.takes_out(spec) else {}
        if isinstance(spec, ReductionSpec):
            return cls(outputs, keywords=out | _REDUCTION_KEYWORDS)
        sized = out | ({"size": "size: int = -1"} if docs.takes_size(spec) else {})
        if spec.boundaries:
            listed = ", ".join(f'"{one}"' for one in spec.boundaries)
            sized["boundary"] = f"boundary: Literal[{listed}] | None = None"
        for word, (name, known) in zip(_size_names(spec), spec.given_sizes.items(), strict=True):
            sized[name] = f"{word}: int" + (f" = {known[0]}" if len(known) == 1 else "")
        required = docs.outputs_required(spec)
        return cls(outputs, required, spec.no_return, spec.return_tuple, sized)

    def type(self, types: ArrayTypes) -> str:
        """Return its annotation."""
        return types.result(self.outputs, self.nothing, self.always_tuple)

    def arrays(self, types: ArrayTypes) -> str:
        """Return the annotation of its arrays, as `out` has them."""
        return types.result(self.outputs, False, False)


def _raw(spec: RawSpec, name: str, callee: str, place: docs.SpecLocation) -> FunctionContext:
    rules, declaration = spec.launch_rules, spec.declaration()
    params = spec.params or ()
    words = _python_names([*params, *declaration.template.numbers])
    values = words[len(params) :]
    words = words[: len(params)]

    def parameters(types: ArrayTypes) -> tuple[str, ...]:
        sizes = [one for one in ("grid", "block") if one not in rules.fixed]
        texts = [] if rules.complete else [f"{one}: Dim3" for one in sizes]
        keywords: list[str] = []
        if spec.params is None:
            texts.append("args: Sequence[Any]")
        else:
            listed = [
                f"{word}: {_raw_type(spec, param, types)}"
                for word, param in zip(words, params, strict=True)
            ]
            optional = [param.name in spec.optional for param in params]
            positional, keywords = _optional_last(listed, optional)
            texts += positional
        keywords += _template_keywords(spec, values)
        keywords += [f"{one}: Dim3 | None = None" for one in sizes] if rules.complete else []
        if "shared_mem" not in rules.fixed:
            default = "int | None = None" if rules.shared_mem else "int = 0"
            keywords.append(f"shared_mem: {default}")
        return (*texts, "*", *keywords, "stream: Stream | None = None")

    sizes = ["None" if one in rules.fixed else one for one in ("grid", "block")]
    passed = [*sizes, "args" if spec.params is None else docs.tuple_text(words)]
    passed += [f"template={docs.tuple_text(values)}"] if values else []
    passed += [] if "shared_mem" in rules.fixed else ["shared_mem=shared_mem"]
    passed.append("stream=stream")
    passed += [f"cluster={spec.cluster!r}"] if spec.cluster else []
    passed += ["pdl=True"] if spec.pdl else []
    arrays = [one for one in map(functools.partial(_array_param, spec), params) if one is not None]
    returned = [one for one in arrays if one.name in rules.returned]
    ways: tuple[ArrayTypes, ...] = (ANY,)
    if returned:
        ways = typed.signatures([one for one in arrays if one not in returned], returned)
    several: tuple[Overload, ...] = ()
    shown, returns = ways[0], ways[0].result(returned, False, False)
    if len(ways) > 1:
        several = tuple(
            Overload(parameters(types), types.result(returned, False, False)) for types in ways
        )
        shown, returns = ANY, "Any"
    return FunctionContext(
        name,
        spec.name,
        "raw_function" if rules else "raw",
        callee,
        parameters(shown),
        returns,
        docs.raw_doc(spec, words, values, place),
        _body(_call(callee, passed), returns),
        several,
    )


def _template_keywords(spec: RawSpec, words: Sequence[str]) -> list[str]:
    """Return the parameters of a function that are integers of the kernel's template."""
    implied = spec.declaration().implied
    texts = []
    for word, name in zip(words, spec.size_names, strict=True):
        if name in spec.defaults:
            texts.append(f"{word}: int | None = None")
        else:
            texts.append(f"{word}: int" + (f" = {implied[name]}" if name in implied else ""))
    return texts


def _optional_last(typed: list[str], optional: list[bool]) -> tuple[list[str], list[str]]:
    """Return positional and keyword-only parameters: these are optional ones before others."""
    last = max((k for k, one in enumerate(optional) if not one), default=-1)
    positional: list[str] = []
    keywords: list[str] = []
    for k, (text, has_default) in enumerate(zip(typed, optional, strict=True)):
        text = f"{text} | None = None" if has_default else text
        (keywords if has_default and k < last else positional).append(text)
    return positional, keywords


def _raw_type(spec: RawSpec, param: CParam, types: ArrayTypes) -> str:
    """Return the annotation of a parameter, without the None of a default."""
    if param.pointer:
        array = _array_param(spec, param)
        return "AnyArray" if array is None or not spec.returns else types.of(array)
    row = dtypes.from_ctype(param.type)
    if row is not None and row.kind in "iu":
        return "Integer"
    return "Scalar" if row or param.is_placeholder else "Any"


def _array_param(spec: RawSpec, param: CParam) -> Param | None:
    """Return a pointer as the parameter of an array; None for numbers, and without a dtype."""
    row = dtypes.from_ctype(param.type)
    if not param.pointer or not (row or param.is_placeholder or param.type in spec.structs):
        return None
    return Param(row.name if row else spec.structs.get(param.type, param.type), param.name)


def _python_names(params: Iterable[Param | CParam]) -> tuple[str, ...]:
    names = _FreeNames()
    return tuple(names.take(param.name) for param in params)


def _size_names(spec: ElementwiseSpec | ReductionSpec) -> tuple[str, ...]:
    names = _FreeNames()
    return tuple(map(names.take, spec.size_names))


def _given(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the arguments for outputs that may be None, which is for the function to say."""
    if len(outputs) == 1 and len(inputs) < PLACES:
        return [f"ABSENT if {outputs[0]} is None else {outputs[0]}"]  # in half the time
    return [f"*given({', '.join(outputs)})"] if outputs else []


def _call(callee: str, arguments: Sequence[str]) -> list[str]:
    line = f"{callee}({', '.join(arguments)})"
    if len(line) <= 70:
        return [line]
    return [f"{callee}(", *(f"    {argument}," for argument in arguments), ")"]


def _body(call: list[str], returns: str) -> tuple[str, ...]:
    if returns == "None":
        return tuple(call)
    return (f"_result: {returns} = {call[0]}", *call[1:], "return _result")
