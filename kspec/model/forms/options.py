"""The arguments of a reduction's forms beside the arrays and numbers of its declaration.

Callers that have all forms (generated functions, torch's operators, JAX's functions, divided
arrays) take the names, types and defaults from here.

>>> [f"{one.name}: {one.kind}" for one in FORM_OPTIONS["by_key"]]
['keys: indices', 'n: number', 'deterministic: flag']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kspec.model.forms.kinds import BY_KEY, REDUCE, SCAN, SEGMENTS, WINDOW
from kspec.model.neighbours.windows import VALID

# Types of arguments: an array of integers; an integer; one axis; one axis, several or None; an
# integer or several; True or False; one of `kspec.model.forms.sliding.BOUNDARIES`.
INDICES, NUMBER, AXIS, AXES, NUMBERS, FLAG, BOUNDARY = (
    *("indices", "number", "axis", "axes", "numbers", "flag", "boundary"),
)
REQUIRED: Any = object()


@dataclass(frozen=True)
class FormOption:
    """An argument of a form.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        Its type, one of those above.
    default : object
        What a call without it has; `REQUIRED`: it needs one.
    """

    name: str
    kind: str
    default: Any = REQUIRED

    @property
    def is_required(self) -> bool:
        """Whether a call needs it."""
        return self.default is REQUIRED


# Those that are required come first, and may be positional.
FORM_OPTIONS: dict[str, tuple[FormOption, ...]] = {
    REDUCE: (FormOption("axis", AXES, None), FormOption("keepdims", FLAG, False)),
    SCAN: (
        FormOption("axis", AXIS, -1),
        FormOption("exclusive", FLAG, False),
        FormOption("reverse", FLAG, False),
    ),
    SEGMENTS: (FormOption("indptr", INDICES),),
    BY_KEY: (
        FormOption("keys", INDICES),
        FormOption("n", NUMBER),
        FormOption("deterministic", FLAG, True),
    ),
    WINDOW: (
        FormOption("size", NUMBERS),
        FormOption("axis", NUMBERS, -1),
        FormOption("boundary", BOUNDARY, VALID),
        FormOption("step", NUMBERS, 1),
    ),
}


def indices_of(form: str) -> tuple[str, ...]:
    """Return the names of the arrays of integers that a form takes behind its inputs."""
    return tuple(one.name for one in FORM_OPTIONS[form] if one.kind == INDICES)
