"""Checks of the ``forms`` of a reduction, and what they know of its reduce expression.

>>> from kspec.model.signature import Param, Signature
>>> inputs, outputs = Signature((Param("T", "x"),)), Signature((Param("T", "y"),))
>>> top = ReductionDeclaration("top", inputs, outputs, has_identity=False)
>>> [fault.message for fault in form_faults(("reduce", "segments"), top)]
["'segments' needs an identity, which is the value of an empty segment"]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kspec.cpp.fragments import code_of, identifiers
from kspec.model.declaration import ReductionDeclaration
from kspec.model.forms.kinds import FORMS, REDUCE, WITH_EMPTY, form_fault
from kspec.model.forms.options import FORM_OPTIONS
from kspec.spec.faults import Fault

# Reduce expressions that all GPUs have atomic operations for, on some types, or whose result is the
# same in any order, on integers: their tokens without spaces, and the enumerator of
# ``kspec/by_key.cuh``.
JOINS = {
    "a+b": "SUM",
    "b+a": "SUM",
    "min(a,b)": "LEAST",
    "min(b,a)": "LEAST",
    "max(a,b)": "LARGEST",
    "max(b,a)": "LARGEST",
    "a&b": "ALL_BITS",
    "b&a": "ALL_BITS",
    "a|b": "ANY_BIT",
    "b|a": "ANY_BIT",
    "a^b": "ODD_BITS",
    "b^a": "ODD_BITS",
    "a*b": "PRODUCT",
    "b*a": "PRODUCT",
    "a&&b": "BOTH",
    "a||b": "EITHER",
}


def join_of(reduce: str, preamble: str = "") -> str:
    """Return the operation of a reduce expression on numbers; empty if it is another.

    >>> join_of("max(b, a)"), join_of("a * b + 1"), join_of("min(a, b)", "float min(float, float);")
    ('LARGEST', '', '')
    """
    words = set(identifiers(reduce)) - {"a", "b"}
    if not words.isdisjoint(identifiers(preamble)):
        return ""
    return JOINS.get("".join(token.text for token in code_of(reduce)), "")


def form_faults(forms: Sequence[str], declaration: ReductionDeclaration) -> Iterator[Fault]:
    """Check that forms are known, that the kernel has them, and that parameters hide no keyword."""
    for index, form in enumerate(forms):
        if form not in FORMS:
            message = f"unknown form {form!r}; expected one of {', '.join(FORMS)}"
        elif form in forms[:index]:
            message = f"{form!r} is listed twice"
        elif form in WITH_EMPTY and not declaration.has_identity:
            message = f"{form!r} needs an identity, which is the value of {WITH_EMPTY[form]}"
        elif form != REDUCE and (reason := form_fault(declaration)):
            message = f"{form!r} is not possible: {reason}"
        else:
            yield from _hidden_keywords(form, declaration)
            continue
        yield Fault(("forms", index), message, offset=0, length=len(form))


def _hidden_keywords(form: str, declaration: ReductionDeclaration) -> Iterator[Fault]:
    taken = {one.name for one in FORM_OPTIONS[form]} - {"axis", "keepdims"}  # those of any
    for field in ("inputs", "outputs"):
        for name in getattr(declaration, field).names:
            if name in taken:
                message = f"{name!r} is an argument of {form!r}; choose another parameter name"
                yield Fault((field,), message, word=name)
