"""Declarations of shared memory, turned into references to where the host device keeps it.

``__shared__ float s[64];`` becomes a typedef of ``float[64]`` and a macro of
``host/include/kspec_host/shared.h`` that finds the variable in the memory of the running block.
`kspec.compiler.host.rewrite` finds the declarations.
"""

from __future__ import annotations

from kspec.cpp.declarations import Declaration, Declarator, parse_declaration
from kspec.cpp.tokens import Token, spelled
from kspec.dataclass import dataclass


@dataclass(frozen=True)
class SharedDeclaration:
    """A parsed __shared__ declaration."""

    declaration: Declaration

    @property
    def extern(self) -> bool:
        """Whether it is about the dynamic shared memory."""
        return "extern" in self.declaration.specifiers

    @property
    def has_value(self) -> bool:
        """Whether a variable has an initial value."""
        return any(one.has_value for one in self.declaration.declarators)

    def in_function(self) -> str:
        """Return the text that replaces a declaration inside a function."""
        macro = "KSPEC_HOST_DYNAMIC_SHARED" if self.extern else "KSPEC_HOST_SHARED"
        pieces = []
        for one in self.declaration.declarators:
            alias = f"kspec_type_{one.name}"
            tag = "" if self.extern else f", kspec_tag_{one.name}"
            pieces.append(f"{self._typedef(one, one.with_name(alias))};")
            pieces.append(f"{macro}({alias}, {one.name}{tag})")
        return " ".join(pieces)

    def at_file_scope(self, first_number: int) -> str:
        """Return the text that replaces a declaration outside all functions.

        The variables have numbers in their module, from the given one on.
        """
        macro = "KSPEC_HOST_FILE_DYNAMIC_SHARED" if self.extern else "KSPEC_HOST_FILE_SHARED"
        pieces = []
        for number, one in enumerate(self.declaration.declarators, first_number):
            alias = f"kspec_type_{one.name}"
            pieces.append(f"{self._typedef(one, one.with_name(alias))};")
            pieces.append(f"{macro}({alias}, {one.name}, {number})")
        return " ".join(pieces)

    def _typedef(self, one: Declarator, declarator: str) -> str:
        """Return a typedef of a variable's type with its alignment."""
        attributes = []
        for tokens in self.declaration.attributes:
            inner = spelled(tokens[2:-1])
            if tokens[0].text == "__attribute__":
                attributes.append(spelled(tokens))
            elif tokens[0].text in ("__align__", "__builtin_align__"):
                attributes.append(f"__attribute__((aligned({inner})))")
            elif tokens[0].text == "alignas":  # of a number or a type
                argument = f"({inner})" if ">" in inner[:-1] and inner[-1] != ">" else inner
                alignment = f"::kspec_host::alignment_of<{argument}>()"
                attributes.append(f"__attribute__((aligned({alignment})))")
        return " ".join(["typedef", *attributes, self.declaration.type, declarator])


def parse_shared(tokens: list[Token]) -> SharedDeclaration | None:
    """Parse the tokens of a __shared__ declaration, or return None for forms we leave alone."""
    declaration = parse_declaration(tokens)
    if declaration is None or any(one.is_function for one in declaration.declarators):
        return None
    return SharedDeclaration(declaration)
