"""Checks of the `backward` of a spec: its inputs, its expressions and their words.

`kspec.spec.models` runs these; `kspec.spec.gradients.kernels` makes a kernel of a table that they
accept.

>>> from kspec.spec.parser import parse_signature
>>> [fault.message for fault in gradients_exist(parse_signature("T x"), ["z"])]
["'z' is not an input of this kernel (it has: x)"]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from kspec.cpp.directives import header_names
from kspec.cpp.fragments import code_of, identifiers, offset_of
from kspec.cpp.names import KEYWORDS, TAKEN, name_problem
from kspec.model import dtypes
from kspec.model.backward import COUNT, PREFIX
from kspec.model.signature import Signature
from kspec.spec import rules
from kspec.spec.faults import Fault

ADJOINT = "adjoint"  # in the place of an expression: derived from the operation, which is linear
_REDUCTION_WORDS = frozenset({"_J", "_i", "_in_ind", "_out_ind", "_ind", "_n", "a", "b"})
# Words that are not variables, but look like some where nothing follows them.
_NOT_VARIABLES = KEYWORDS | TAKEN | {"i", "n", "_ind"}
# Constants of CUDA and of C, and the types of its headers.
_CONSTANTS = re.compile(r"[A-Z][A-Z_0-9]*|M_\w+|CUDART_\w+|\w+_t")
_CALLED = frozenset({"(", "<", "::", "{"})


class Differentiable(Protocol):
    """Fields of a spec that these rules read."""

    kind: ClassVar[str]
    inputs: Signature
    outputs: Signature
    preamble: str
    options: tuple[str, ...]

    @property
    def macro_texts(self) -> tuple[str, ...]:
        """The macros of the preamble and of the options."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Distinct type placeholders."""


def backward_fits(
    spec: Differentiable, backward: str | Mapping[str, str], scalars: Collection[str]
) -> Iterator[Fault]:
    """Check the gradients of a kernel as far as its own spec tells.

    `scalars` are inputs that are always numbers.
    """
    written = [param.name for param in spec.inputs if param.non_const]
    if written:
        message = f"{written[0]!r} is written to, so its value is gone when gradients are computed"
        yield Fault(("backward",), f"{message}; a kernel with gradients leaves its inputs alone")
    if not any(_may_be_floating(param.type) for param in spec.outputs):
        yield Fault(("backward",), "no output is floating, so there is nothing to differentiate")
    for name in spec.outputs.names:
        if f"{PREFIX}{name}" in (*spec.inputs.names, *spec.outputs.names):
            message = f"'{PREFIX}{name}' is what the gradient of {name!r} is called; rename it"
            yield Fault(("backward",), message)
    if isinstance(backward, str):
        problem = name_problem(backward)
        if problem:
            yield Fault(
                ("backward",), f"{backward!r} cannot be a kernel's name: {problem}", offset=0
            )
        return
    if not backward:
        yield Fault(("backward",), "must not be empty; write an expression for an input")
    core = next((param for param in (*spec.inputs, *spec.outputs) if param.core), None)
    if core is not None:
        message = (
            f"an expression sees one element, and {core} has core dimensions; declare a kernel for "
            "the gradients, and name it: backward = 'name' (in Python, pass the kernel)"
        )
        yield Fault(("backward",), message)
        return
    yield from gradients_exist(spec.inputs, backward)
    yield from _differentiable(spec, backward, scalars)
    adjoints = adjoints_of(backward)
    if adjoints:
        yield from _adjoint_fits(spec, backward, adjoints)
        return
    for name, text in backward.items():
        yield from _expression(spec, ("backward", name), text)


def adjoints_of(backward: Mapping[str, str]) -> tuple[str, ...]:
    """Return the inputs whose gradients are derived."""
    return tuple(name for name, text in backward.items() if text.strip() == ADJOINT)


def _adjoint_fits(
    spec: Differentiable, backward: Mapping[str, str], adjoints: Sequence[str]
) -> Iterator[Fault]:
    """Check that the gradient of a windowed input can be derived."""
    windows = getattr(spec, "windows", {})
    for name in adjoints:
        if name not in windows:
            message = f"{ADJOINT!r} is for inputs with a window, and {name!r} has none"
            yield Fault(("backward", name), f"{message}; write an expression")
    for name in getattr(spec, "samples", {}):
        if name in windows:
            message = f"the operation samples {name}, and {ADJOINT!r} knows reads at offsets only"
            yield Fault(("backward",), f"{message}; name a kernel")
    for name in list(backward)[1:]:
        message = f"{ADJOINT!r} stands alone; name a kernel for the gradients of several inputs"
        yield Fault(("backward", name), message, at_key=True)
    for param in spec.outputs:
        if not _may_be_floating(param.type):
            message = f"output {param.name!r} is {param.type}; {ADJOINT!r} needs floating outputs"
            yield Fault(("backward",), message)
    if getattr(spec, "is_ordered", False):
        message = f"the operation reads where an element is (i or _ind), which {ADJOINT!r} moves"
        yield Fault(("backward",), message)


def gradients_exist(inputs: Signature, names: Iterable[str]) -> Iterator[Fault]:
    """Check that expressions are for inputs."""
    for name in names:
        if name not in inputs.names:
            have = ", ".join(inputs.names) or "none"
            message = f"{name!r} is not an input of this kernel (it has: {have})"
            yield Fault(("backward", name), message, at_key=True)


def _may_be_floating(type_: str) -> bool:
    return len(type_) == 1 or dtypes.lookup(type_).kind == "f"


def _differentiable(
    spec: Differentiable, names: Iterable[str], scalars: Collection[str]
) -> Iterator[Fault]:
    """Check that inputs with expressions can have gradients, element by element."""
    params = {param.name: param for param in spec.inputs}
    for name in names:
        param = params.get(name)
        if param is None:
            continue
        reason = ""
        if param.raw:
            reason = "is raw, and an expression sees one element; name a kernel instead"
        elif name in scalars:
            reason = "is always a number, which has no gradient; leave it out"
        elif not _may_be_floating(param.type):
            reason = f"is declared {param.type}; only floating inputs have gradients"
        if reason:
            yield Fault(("backward", name), f"{name!r} {reason}", at_key=True)
    for param in spec.outputs:
        if param.raw:
            message = f"output {param.name!r} is raw: expressions see one element; name a kernel"
            yield Fault(("backward",), message)


def _expression(spec: Differentiable, where: tuple[str, str], text: str) -> Iterator[Fault]:
    """Check one expression, with places in its text."""
    if not text.strip():
        yield Fault(where, "must not be empty; leave the input out if it has no gradient", offset=0)
        return
    for check in (
        rules.balanced({"text": text}, spec.preamble, spec.options),
        rules.expressions(text=text),
        rules.ends_its_line({"text": text}),
    ):
        for fault in check:
            yield Fault(where, fault.message, fault.offset, fault.length)
    yield from _words(spec, where, text)


def _words(spec: Differentiable, where: tuple[str, str], text: str) -> Iterator[Fault]:
    """Check that an expression names a gradient, and nothing that is not there."""
    grads = [f"{PREFIX}{name}" for name in spec.outputs.names]
    elsewhere = set(identifiers(spec.preamble, *spec.macro_texts))
    words = identifiers(text)
    reduction = spec.kind == "reduction"
    if not elsewhere.intersection(grads) and not any(one.startswith(PREFIX) for one in words):
        message = f"uses no gradient of an output ({', '.join(grads)}), so it cannot be one"
        yield Fault(where, message, offset=0, length=len(text.split("\n")[0]))
    hidden = header_names(spec.preamble) or "##" in spec.preamble
    hidden = hidden or any(
        option.startswith(("-I", "-D", "-include", "--")) for option in spec.options
    )
    known = {*spec.inputs.names, *spec.outputs.names, *grads, *elsewhere, *spec.placeholders}
    known |= {COUNT} if reduction else set()
    for word in words:
        offset = offset_of(word, text)
        if word in known or word.removeprefix("_raw_") in known:
            continue
        if reduction and word in _REDUCTION_WORDS:
            message = f"{word!r} does not exist here: an expression sees one element of each input"
            yield Fault(where, f"{message}; {COUNT!r} says how many there are", offset, len(word))
        elif word.startswith(PREFIX):
            have = ", ".join(grads)
            message = f"{word!r} is not the gradient of an output (there are: {have})"
            yield Fault(where, message, offset, len(word))
        elif not hidden and "{" not in text and _is_variable(word, text):
            have = ", ".join([*spec.inputs.names, *spec.outputs.names, *grads])
            message = f"{word!r} is unknown; expressions for gradients name {have}"
            yield Fault(where, message, offset, len(word))


def _is_variable(word: str, text: str) -> bool:
    """Return whether a word is an unknown variable: neither C++'s nor CUDA's."""
    if dtypes.is_known(word) or dtypes.from_ctype(word) is not None:
        return False
    if word in _NOT_VARIABLES or _CONSTANTS.fullmatch(word):
        return False
    code = ["", *(token.text for token in code_of(text)), ""]
    after = [
        code[k + 1]
        for k in range(1, len(code) - 1)
        if code[k] == word and code[k - 1] not in (".", "->", "::")
    ]
    return bool(after) and _CALLED.isdisjoint(after)
