"""The arguments of a reduction's forms beside the arrays and numbers of its declaration.

Callers that have all forms (generated functions, torch's operators, JAX's functions, divided
arrays) take the names, types and defaults from here.

>>> [f"{one.name}: {one.kind.value}" for one in FORM_OPTIONS["by_key"]]
['keys: indices', 'n: number', 'deterministic: flag']
"""

from __future__ import annotations

import enum
import json
from typing import Any

from kspec.dataclass import dataclass
from kspec.model.forms.kinds import BY_KEY, REDUCE, SCAN, SEGMENTS, WINDOW
from kspec.model.neighbours.windows import VALID

REQUIRED: Any = object()


class OptionKind(enum.Enum):
    """Types of arguments."""

    INDICES = "indices"  # an array of integers
    NUMBER = "number"
    NUMBERS = "numbers"  # an integer or several
    AXIS = "axis"
    AXES = "axes"  # one axis, several or None
    FLAG = "flag"  # True or False
    TRUTH = "truth"  # anything that is true or false, as NumPy takes it
    BOUNDARY = "boundary"  # one of `kspec.model.forms.sliding.BOUNDARIES`


@dataclass(frozen=True)
class FormOption:
    """An argument of a form.

    Attributes
    ----------
    name : str
        Its name.
    kind : OptionKind
        Its type.
    default : object
        What a call without it has; `REQUIRED`: it needs one.
    """

    name: str
    kind: OptionKind
    default: Any = REQUIRED

    @property
    def is_required(self) -> bool:
        """Whether a call needs it."""
        return self.default is REQUIRED

    @property
    def default_text(self) -> str:
        """The default as Python and torch's schemas have it; empty if a call needs the argument."""
        if self.is_required:
            return ""
        return json.dumps(self.default) if isinstance(self.default, str) else str(self.default)


# Those that are required come first, and may be positional.
FORM_OPTIONS: dict[str, tuple[FormOption, ...]] = {
    REDUCE: (
        FormOption("axis", OptionKind.AXES, None),
        FormOption("keepdims", OptionKind.TRUTH, False),
    ),
    SCAN: (
        FormOption("axis", OptionKind.AXIS, -1),
        FormOption("exclusive", OptionKind.FLAG, False),
        FormOption("reverse", OptionKind.FLAG, False),
    ),
    SEGMENTS: (FormOption("indptr", OptionKind.INDICES),),
    BY_KEY: (
        FormOption("keys", OptionKind.INDICES),
        FormOption("n", OptionKind.NUMBER),
        FormOption("deterministic", OptionKind.FLAG, True),
    ),
    WINDOW: (
        FormOption("size", OptionKind.NUMBERS),
        FormOption("axis", OptionKind.NUMBERS, -1),
        FormOption("boundary", OptionKind.BOUNDARY, VALID),
        FormOption("step", OptionKind.NUMBERS, 1),
    ),
}


def indices_of(form: str) -> tuple[str, ...]:
    """Return the names of the arrays of integers that a form takes behind its inputs."""
    return tuple(one.name for one in FORM_OPTIONS[form] if one.kind == OptionKind.INDICES)
