"""Declarations of shared memory, turned into references to where the host device keeps it.

``__shared__ float s[64];`` becomes a typedef of ``float[64]`` and a macro of
``host/include/kspec_host/shared.h`` that finds the variable in the memory of the running block.
`kspec.compiler.rewrite` finds the declarations.
"""

from __future__ import annotations

from dataclasses import dataclass

from kspec.compiler.lexer import Token, group_end, name_index, split_at_commas, without_attributes


@dataclass(frozen=True)
class SharedDeclaration:
    """A parsed __shared__ declaration."""

    extern: bool
    base: str  # specifiers and type, attributes included
    variables: tuple[tuple[str, str, str], ...]  # stars, name, dimensions

    def in_function(self) -> str:
        """Return the text that replaces a declaration inside a function."""
        macro = "KSPEC_HOST_DYNAMIC_SHARED" if self.extern else "KSPEC_HOST_SHARED"
        pieces = []
        for stars, name, dimensions in self.variables:
            alias = f"kspec_type_{name}"
            tag = "" if self.extern else f", kspec_tag_{name}"
            pieces.append(f"typedef {self.base} {stars}{alias}{dimensions};")
            pieces.append(f"{macro}({alias}, {name}{tag})")
        return " ".join(pieces)

    def at_file_scope(self) -> str:
        """Return the text that replaces an ``extern`` declaration outside all functions."""
        pieces = []
        for stars, name, _ in self.variables:
            alias = f"kspec_type_{name}"
            pieces.append(f"typedef {self.base} {stars}{alias};")
            pieces.append(f"KSPEC_HOST_FILE_DYNAMIC_SHARED({alias}, {name})")
        return " ".join(pieces)


def parse_shared(tokens: list[Token]) -> SharedDeclaration | None:
    """Parse the tokens of a __shared__ declaration, or return None for forms we leave alone."""
    extern = any(token.text == "extern" for token in tokens)
    attributes = _attribute_texts(tokens)
    tokens = [
        token
        for token in without_attributes(tokens)
        if token.text not in ("extern", "static", "__shared__")
    ]
    if any(token.text in ("=", "{", "(") for token in tokens):
        return None
    parts = split_at_commas(tokens)
    position = name_index(parts[0])
    if position < 1:
        return None
    type_end = position
    while type_end and parts[0][type_end - 1].text in ("*", "&"):
        type_end -= 1
    base = " ".join([*attributes, *(token.text for token in parts[0][:type_end])])
    variables = []
    for part in [parts[0][type_end:], *parts[1:]]:
        index = name_index(part)
        if index < 0:
            return None
        stars = "".join(token.text for token in part[:index])
        dimensions = "".join(f"{token.text} " for token in part[index + 1 :]).rstrip()
        variables.append((stars, part[index].text, dimensions))
    return SharedDeclaration(extern, base, tuple(variables))


def _attribute_texts(tokens: list[Token]) -> list[str]:
    """Return the alignment attributes of a declaration, spelled so that a typedef takes them."""
    found = []
    for index, token in enumerate(tokens):
        if token.text in ("__align__", "alignas"):
            inner = " ".join(t.text for t in tokens[index + 2 : group_end(tokens, index + 1) - 1])
            found.append(f"__attribute__((aligned({inner})))")
        elif token.text == "__attribute__":
            group = tokens[index : group_end(tokens, index + 1)]
            found.append(" ".join(t.text for t in group))
    return found
