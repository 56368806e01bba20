"""Forms of reductions in generated code: arguments as annotations and as docstrings have them.

>>> from kspec.model.forms.options import FORM_OPTIONS
>>> [form_argument(one) for one in FORM_OPTIONS["scan"]]
['axis: int = -1', 'exclusive: bool = False', 'reverse: bool = False']
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from kspec.model.forms.kinds import BY_KEY, SCAN, SEGMENTS, WINDOW
from kspec.model.forms.options import FORM_OPTIONS, FormOption, OptionKind
from kspec.model.forms.sliding import BOUNDARIES

FORM_SUMMARIES = {
    SCAN: "Reduce each element with all before it along an axis.",
    SEGMENTS: "Reduce segments of the first axis.",
    BY_KEY: "Reduce the elements of each key, along the first axis.",
    WINDOW: "Reduce windows that slide along axes.",
}
_PARAMETERS = {
    SCAN: {
        "axis": "The axis.",
        "exclusive": "Reduce the elements before each one without itself.",
        "reverse": "Begin at the end of the axis.",
    },
    SEGMENTS: {"indptr": "Where segments begin, sorted, and where the last one ends."},
    BY_KEY: {
        "keys": "The output of each row; rows with keys out of range have none.",
        "n": "Number of outputs.",
        "deterministic": "Keep the order of elements, so that equal calls give equal bits; without "
        "it GPUs are faster.",
    },
    WINDOW: {
        "size": "Elements of a window along each axis.",
        "axis": "Axes along which windows slide.",
        "boundary": 'What lies beyond the ends of the axes; with "valid" all windows lie inside, '
        'with "shrink" those at the ends have fewer elements.',
        "step": "Elements from one window to the next.",
    },
}
_TYPES = {
    OptionKind.AXIS: "int",
    OptionKind.BOUNDARY: "str",
    OptionKind.FLAG: "bool",
    OptionKind.NUMBER: "int",
    OptionKind.NUMBERS: "int or tuple of int",
}
_ANNOTATIONS = {
    OptionKind.AXIS: "int",
    OptionKind.BOUNDARY: f"Literal[{', '.join(map(json.dumps, BOUNDARIES))}]",
    OptionKind.FLAG: "bool",
    OptionKind.INDICES: "AnyArray",
    OptionKind.NUMBER: "int",
    OptionKind.NUMBERS: "int | tuple[int, ...]",
}


def form_argument(one: FormOption) -> str:
    """Return an argument as a signature has it."""
    text = f"{one.name}: {_ANNOTATIONS[one.kind]}"
    return text if one.is_required else f"{text} = {one.default_text}"


def form_parameters(form: str, required: bool, array: str) -> Iterator[tuple[str, str]]:
    """Yield the arguments that a form requires, or the others: name and type, and what they are.

    `array`: what arrays are called.
    """
    for one in FORM_OPTIONS[form]:
        if one.is_required == required:
            head = f"{one.name} : {_TYPES.get(one.kind, f'{array} of integers')}"
            default = "" if required else f", default {one.default_text}"
            yield head + default, _PARAMETERS[form][one.name]
