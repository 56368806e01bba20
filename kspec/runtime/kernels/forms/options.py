"""Arguments of forms in calls that take those of any kernel: inputs and keywords, with defaults.

>>> given_options(axis=0, keepdims=False, boundary=None, exclusive=True)
{'axis': 0, 'exclusive': True}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError, NotSupportedError
from kspec.model.forms import SCAN, SEGMENTS, WINDOW
from kspec.model.neighbours.windows import VALID

_REQUIRED = object()
_OPTIONS: dict[str, dict[str, Any]] = {
    SCAN: {"axis": -1, "exclusive": False, "reverse": False},
    SEGMENTS: {"indptr": _REQUIRED},
    WINDOW: {"size": _REQUIRED, "axis": -1, "boundary": VALID, "step": 1},
}


def given_options(**options: Any) -> dict[str, Any]:
    """Return the keywords that a caller has given: not None, and not False for ``keepdims``."""
    return {
        name: value
        for name, value in options.items()
        if value is not None and not (name == "keepdims" and value is False)
    }


def form_arguments(
    kernel: Any, form: str, args: Sequence[Any], given: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs of a call of a form on divided arrays, and all its keywords.

    Parameters
    ----------
    kernel : ReductionCallable
        The kernel.
    form : str
        One of `kspec.model.forms`.
    args : sequence
        The inputs, and then the bounds of segments or the size of windows, unless by keyword.
    given : mapping of str to object
        Keywords.

    Raises
    ------
    ArgumentTypeError
        A keyword is unknown, missing, or given twice.
    NotSupportedError
        Divided arrays have no such form.
    """
    where = f"{kernel.__name__}.{form}()"
    if form not in _OPTIONS:
        raise NotSupportedError(f"{where} does not take arrays in several parts; pass whole arrays")
    options, inputs = dict(_OPTIONS[form]), tuple(args)
    required = [name for name, value in options.items() if value is _REQUIRED]
    unknown = next((name for name in given if name not in options), None)
    if unknown is not None:
        raise ArgumentTypeError(f"{where} got an unexpected keyword argument {unknown!r}")
    count = len(kernel.declaration.inputs)
    if required and len(inputs) == count + 1:
        (name,) = required
        if name in given:
            raise ArgumentTypeError(f"{where} got multiple values for argument {name!r}")
        options[name], inputs = inputs[-1], inputs[:-1]
    options |= given
    missing = next((name for name in required if options[name] is _REQUIRED), None)
    if missing is not None:
        raise ArgumentTypeError(f"{where} needs {missing}")
    return inputs, options
