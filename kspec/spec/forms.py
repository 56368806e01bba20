"""Checks of the ``forms`` of a reduction: values in, faults out.

>>> from kspec.model.signature import Param, Signature
>>> inputs, outputs = Signature((Param("T", "x"),)), Signature((Param("T", "y"),))
>>> top = ReductionDeclaration("top", inputs, outputs, has_identity=False)
>>> [fault.message for fault in form_faults(("reduce", "segments"), top)]
["'segments' needs an identity, which is the value of an empty segment"]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kspec.model.declaration import ReductionDeclaration
from kspec.model.forms import FORMS, KEYWORDS, REDUCE, SEGMENTS, form_fault
from kspec.spec.faults import Fault


def form_faults(forms: Sequence[str], declaration: ReductionDeclaration) -> Iterator[Fault]:
    """Check that forms are known, that the kernel has them, and that parameters hide no keyword."""
    for index, form in enumerate(forms):
        if form not in FORMS:
            message = f"unknown form {form!r}; expected one of {', '.join(FORMS)}"
        elif form in forms[:index]:
            message = f"{form!r} is listed twice"
        elif form == SEGMENTS and not declaration.has_identity:
            message = f"{form!r} needs an identity, which is the value of an empty segment"
        elif form != REDUCE and (reason := form_fault(declaration)):
            message = f"{form!r} is not possible: {reason}"
        else:
            yield from _hidden_keywords(form, declaration)
            continue
        yield Fault(("forms", index), message, offset=0, length=len(form))


def _hidden_keywords(form: str, declaration: ReductionDeclaration) -> Iterator[Fault]:
    for field in ("inputs", "outputs"):
        for name in getattr(declaration, field).names:
            if name in KEYWORDS[form]:
                message = f"{name!r} is an argument of {form!r}; choose another parameter name"
                yield Fault((field,), message, word=name)
