"""The tokens of expressions in, their trees out: the part of C++ that kernels with loops may have.

`kspec.compiler.host.loops.parse` reads statements with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.compiler.host.loops.tree import (
    Conversion,
    CoordinateUse,
    ElementUse,
    KernelVariable,
    MathCall,
    NumberLiteral,
    OperatorUse,
    TreeExpression,
    VariableUse,
    is_index,
)
from kspec.cpp.tokens import Token

ARITHMETIC = frozenset(
    ["bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned"]
)
_SIZES = (8, 16, 32, 64)
_NAMED_TYPES = frozenset(
    ["size_t", "ptrdiff_t", *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in _SIZES)]
)
_COORDINATES = frozenset(["threadIdx", "blockIdx", "blockDim", "gridDim"])
# Functions of numbers without other effects.
_PLAIN_FUNCTIONS = (
    *("sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "hypot"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
    *("fabs", "floor", "ceil", "trunc", "rint", "round", "fmin", "fmax", "fmod", "fma"),
    *("copysign", "erf", "erfc"),
)
_FUNCTIONS = frozenset([*_PLAIN_FUNCTIONS, *(f"{one}f" for one in _PLAIN_FUNCTIONS), "min", "max"])
_BINARY = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LEVEL_OF = {operator: level for level, operators in enumerate(_BINARY) for operator in operators}
_PREFIX = "kspec_"


class NotReadError(Exception):
    """Something else than the part of C++ that is read."""


def read_type(tokens: Sequence[Token], start: int, types: Sequence[str]) -> tuple[str, int]:
    """Return the arithmetic type that begins at a token, without const, and where it ends."""
    words: list[str] = []
    index = start
    while index < len(tokens):
        word = tokens[index].text
        if (word in ARITHMETIC and (not words or words[0] in ARITHMETIC)) or (
            not words and (word in _NAMED_TYPES or word in types)
        ):
            words.append(word)
        elif word not in ("const", "constexpr"):
            break
        index += 1
    return " ".join(words), index if words else start


class ExpressionReader:
    """A place in tokens, and the variables in scope there."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = _joined(tokens)
        self.at = 0
        self.types: list[str] = []
        self.scopes: list[dict[str, KernelVariable]] = []
        self.functions: set[str] = set()

    # ------------------------------------------------------------- tokens

    def word(self, ahead: int = 0) -> str:
        """Return the word at the place, or near it; nothing at the end."""
        place = self.at + ahead
        return self.tokens[place].text if place < len(self.tokens) else ""

    def place(self) -> int:
        """Return the offset of the next token in the text."""
        return self.tokens[min(self.at, len(self.tokens) - 1)].start

    def take(self, *expected: str) -> str:
        """Read a token, which has to be one of those expected, if any are named."""
        word = self.word()
        if not word or (expected and word not in expected):
            raise NotReadError
        self.at += 1
        return word

    def takes(self, *expected: str) -> bool:
        """Return whether the next token is one of those expected, and read it then."""
        found = self.word() in expected
        self.at += found
        return found

    # ------------------------------------------------------------- names

    def declare(self, variable: KernelVariable) -> KernelVariable:
        """Add a variable to the innermost scope."""
        name = variable.name
        if name in _COORDINATES or name.startswith(_PREFIX) or name in self.scopes[-1]:
            raise NotReadError
        # A name has one meaning, so that loops may carry variables out of their scopes.
        if any(name in scope for scope in self.scopes):
            raise NotReadError
        self.scopes[-1][name] = variable
        return variable

    def lookup(self, name: str) -> KernelVariable:
        """Return the variable that a name stands for."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise NotReadError

    # ------------------------------------------------------------- expressions

    def expression(self) -> TreeExpression:
        """Read an expression without commas and assignments."""
        condition = self.binary(0)
        if not self.takes("?"):
            return condition
        then = self.expression()
        self.take(":")
        return OperatorUse("?:", (condition, then, self.expression()))

    def binary(self, level: int) -> TreeExpression:
        """Read operators of a precedence, and of those above it."""
        found = self.unary()
        while _LEVEL_OF.get(self.word(), -1) >= level:
            operator = self.take()
            found = OperatorUse(operator, (found, self.binary(_LEVEL_OF[operator] + 1)))
        return found

    def unary(self) -> TreeExpression:
        """Read an operand with the signs and casts before it."""
        if self.word() in ("+", "-", "!", "~"):
            return OperatorUse(self.take(), (self.unary(),))
        if self.takes("*"):  # of a pointer
            variable = self.lookup(self.take())
            if variable.kind != "pointer":
                raise NotReadError
            return ElementUse(variable, (NumberLiteral("0"),))
        if self.word() == "(":
            kind, end = read_type(self.tokens, self.at + 1, self.types)
            if kind and self.word(end - self.at) == ")":
                self.at = end + 1
                return Conversion(kind, self.unary())
        return self.postfix()

    def postfix(self) -> TreeExpression:
        """Read an operand: a literal, a variable, an element, a call, or a group."""
        if self.at >= len(self.tokens):
            raise NotReadError
        token = self.tokens[self.at]
        if token.text == "(":
            self.at += 1
            found = self.expression()
            self.take(")")
            return found
        if token.kind == "number":
            self.at += 1
            return NumberLiteral(token.text)
        if token.kind != "word":
            raise NotReadError
        if token.text in _COORDINATES:
            self.at += 1
            self.take(".")
            return CoordinateUse(token.text, self.take("x", "y", "z"))
        if token.text == "static_cast" or self.word(1) == "(":
            return self.call()
        self.at += 1
        return self.value(self.lookup(token.text))

    def call(self) -> TreeExpression:
        """Read a conversion, or a call of a function."""
        if self.takes("static_cast"):
            self.take("<")
            kind, self.at = read_type(self.tokens, self.at, self.types)
            self.take(">")
        else:
            kind, end = read_type(self.tokens, self.at, self.types)
            if not kind:
                return self.function()
            self.at = end
        self.take("(")
        operand = self.expression()
        self.take(")")
        if not kind:
            raise NotReadError
        return Conversion(kind, operand)

    def function(self) -> TreeExpression:
        """Read a call of a mathematical function."""
        name = self.take()
        if name not in _FUNCTIONS:
            raise NotReadError
        self.functions.add(name)
        self.take("(")
        arguments = [self.expression()]
        while self.takes(","):
            arguments.append(self.expression())
        self.take(")")
        return MathCall(name, tuple(arguments))

    def value(self, variable: KernelVariable) -> TreeExpression:
        """Read what follows the name of a variable."""
        if variable.kind not in ("pointer", "shared"):
            return VariableUse(variable)
        indices = []
        while self.takes("["):
            indices.append(self.expression())
            self.take("]")
        if len(indices) != max(1, len(variable.extents)) or not all(map(is_index, indices)):
            raise NotReadError
        return ElementUse(variable, tuple(indices))


def _joined(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens without directives, with ``>>`` and ``>>=`` as one."""
    found: list[Token] = []
    for token in tokens:
        if token.kind == "directive":
            continue
        last = found[-1] if found else None
        if last and last.text == ">" and last.end == token.start and token.text in (">", ">="):
            found[-1] = Token("mark", f">{token.text}", last.start, token.end)
        else:
            found.append(token)
    return found
