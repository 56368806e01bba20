"""The declaration of a kernel in, its template and its parameters out.

`kspec.compiler.host.loops.parse` reads the body.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.compiler.host.loops.expressions import ARITHMETIC, NotReadError, read_type
from kspec.compiler.host.loops.tree import KernelVariable
from kspec.cpp.brackets import angle_end, group_end, split_at_commas
from kspec.cpp.declarations import split_attributes
from kspec.cpp.tokens import Token, spelled

_RESTRICT = frozenset(["__restrict__", "__restrict", "restrict"])


class KernelHead:
    """The declaration of a kernel: its name, template and parameters."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.template = ""
        self.types: list[str] = []
        self.constants: list[KernelVariable] = []
        _, rest = split_attributes(tokens)
        if rest and rest[0].text == "template":
            end = angle_end(rest, 1)
            self._read_template(rest[2 : end - 1])
            self.template = spelled(rest[:end])
            rest = rest[end:]
        opening = next((i for i, token in enumerate(rest) if token.text == "("), 0)
        if not opening or group_end(rest, opening) != len(rest):
            raise NotReadError
        words = {token.text for token in rest[: opening - 1]}
        if not words <= {"__global__", "void", "extern", '"C"', "static", "inline"}:
            raise NotReadError
        self.name = rest[opening - 1].text
        self.parameters: list[str] = []
        self.variables: list[KernelVariable] = []
        inner = rest[opening + 1 : -1]
        for part in split_at_commas(inner) if inner else []:
            self._read_parameter([token for token in part if token.text not in _RESTRICT])

    def _read_template(self, tokens: Sequence[Token]) -> None:
        for part in split_at_commas(tokens):
            words = [token.text for token in part]
            if words[:1] in (["typename"], ["class"]) and (len(words) == 2 or words[2:3] == ["="]):
                self.types.append(words[1])
                continue
            end = next((i for i, word in enumerate(words) if word not in ARITHMETIC), 0)
            if not end or words[end + 1 : end + 2] not in ([], ["="]):
                raise NotReadError
            self.constants.append(KernelVariable(words[end], "value", " ".join(words[:end])))

    def _read_parameter(self, tokens: Sequence[Token]) -> None:
        kind, end = read_type(tokens, 0, self.types)
        words = [token.text for token in tokens[end:]]
        if not kind or not words or tokens[-1].kind != "word":
            raise NotReadError
        if words[0] == "*" and words[1:-1] in ([], ["const"]):
            self.variables.append(KernelVariable(words[-1], "pointer", kind))
        elif len(words) == 1:
            self.variables.append(KernelVariable(words[0], "value", kind))
        else:
            raise NotReadError
        self.parameters.append(spelled(tokens))
