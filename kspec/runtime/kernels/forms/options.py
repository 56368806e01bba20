"""Arguments of forms in calls that take those of any kernel: inputs and keywords, with defaults.

>>> given_options(axis=0, keepdims=False, boundary=None, exclusive=True)
{'axis': 0, 'exclusive': True}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.model.forms.options import FORM_OPTIONS, REQUIRED, OptionKind
from kspec.model.shapes import flag


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
        The inputs, and then what the form requires (`kspec.model.forms.options`), unless named.
    given : mapping of str to object
        Keywords.

    Raises
    ------
    ArgumentTypeError
        A keyword is unknown, missing, given twice, or not a bool where it has to be one.
    """
    where, count = f"{kernel.__name__}.{form}()", len(kernel.declaration.inputs)
    options = FORM_OPTIONS[form]
    names = [one.name for one in options]
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise ArgumentTypeError(f"{where} got an unexpected keyword argument {unknown!r}")
    inputs, behind = tuple(args[:count]), tuple(args[count:])
    required = [one.name for one in options if one.is_required]
    if len(behind) > len(required):
        inputs, behind = tuple(args), ()  # too many, as the caller says
    positional = dict(zip(required, behind, strict=False))
    twice = next((name for name in positional if name in given), None)
    if twice is not None:
        raise ArgumentTypeError(f"{where} got multiple values for argument {twice!r}")
    values = {**{one.name: one.default for one in options}, **positional, **given}
    missing = next((name for name in required if values[name] is REQUIRED), None)
    if missing is not None:
        raise ArgumentTypeError(f"{where} needs {missing}")
    flags = [one.name for one in options if one.kind == OptionKind.FLAG]
    return inputs, values | {name: flag(kernel.__name__, name, values[name]) for name in flags}
