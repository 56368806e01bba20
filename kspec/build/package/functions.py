"""Specs in, the strings of typed Python functions out: elementwise functions and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from kspec.build.package import typed
from kspec.build.package.contexts import (
    FormContext,
    FunctionContext,
    Overload,
    body_of,
    call_of,
)
from kspec.build.package.docs.functions import (
    form_doc,
    generated_doc,
    outputs_required,
    takes_out,
    takes_size,
)
from kspec.build.package.docs.lines import SpecLocation
from kspec.build.package.form_texts import form_argument
from kspec.build.package.names import python_names
from kspec.build.package.typed import ANY, SAME, ArrayTypes
from kspec.dataclass import dataclass
from kspec.model.declaration import PLACES
from kspec.model.forms.options import FORM_OPTIONS
from kspec.model.signature import Param
from kspec.spec.models import ElementwiseSpec, ReductionSpec

_OUT = {"out": "out: {} | None = None"}
_REDUCTION_KEYWORDS = {
    "axis": "axis: Axis | None = None",
    "keepdims": "keepdims: bool = False",
}


def function_of(
    spec: ElementwiseSpec | ReductionSpec, name: str, callee: str, place: SpecLocation
) -> FunctionContext:
    """Return the function of an elementwise kernel or a reduction, with its other forms.

    Parameters
    ----------
    spec : ElementwiseSpec or ReductionSpec
        The kernel.
    name, callee : str
        Python names of the function, and of the callable behind it.
    place : SpecLocation
        Where the kernel is declared.
    """
    scalars = spec.declaration().scalars
    inputs, outputs = python_names(spec.inputs.names), python_names(spec.outputs.names)
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
    call = call_of(callee, [*inputs, *given, *keywords])
    doc = generated_doc(spec, inputs, outputs, place, python_names(spec.size_names))
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
        body_of(call, returns),
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
    words = python_names(spec.inputs.names)
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
    call = call_of(f"{callee}.{form}", [*words, *passed, *(f"{one}={one}" for one in named)])
    return FormContext(
        form,
        shown.parameters,
        returns,
        form_doc(spec, form, words),
        body_of(call, returns),
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
        outputs, out = spec.outputs.params, _OUT if takes_out(spec) else {}
        if isinstance(spec, ReductionSpec):
            return cls(outputs, keywords=out | _REDUCTION_KEYWORDS)
        sized = out | ({"size": "size: int = -1"} if takes_size(spec) else {})
        if spec.boundaries:
            listed = ", ".join(f'"{one}"' for one in spec.boundaries)
            sized["boundary"] = f"boundary: Literal[{listed}] | None = None"
        for word, (name, known) in zip(
            python_names(spec.size_names), spec.given_sizes.items(), strict=True
        ):
            sized[name] = f"{word}: int" + (f" = {known[0]}" if len(known) == 1 else "")
        required = outputs_required(spec)
        return cls(outputs, required, spec.no_return, spec.return_tuple, sized)

    def type(self, types: ArrayTypes) -> str:
        """Return its annotation."""
        return types.result(self.outputs, self.nothing, self.always_tuple)

    def arrays(self, types: ArrayTypes) -> str:
        """Return the annotation of its arrays, as `out` has them."""
        return types.result(self.outputs, False, False)


def _given(inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the arguments for outputs that may be None, which is for the function to say."""
    if len(outputs) == 1 and len(inputs) < PLACES:
        return [f"ABSENT if {outputs[0]} is None else {outputs[0]}"]  # in half the time
    return [f"*given({', '.join(outputs)})"] if outputs else []
