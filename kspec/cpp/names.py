"""Names in CUDA C++: those that kernels and parameters may have, and those of integer types.

>>> name_problem("x"), name_problem("float")
('', "'float' is a C++ keyword")

`kspec.spec.parser` asks for the problem with the name of every parameter, `kspec.spec.rules` with
those of kernels.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kspec.limits import NAME

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")

KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t
    char16_t char32_t class compl concept const const_cast consteval constexpr constinit
    continue co_await co_return co_yield decltype default delete do double dynamic_cast else
    enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires restrict return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef
    typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()  # noqa: SIM905  (a list of words reads better)
)

# Words CUDA or the headers of generated code have already given a meaning.
TAKEN = frozenset(
    """
    threadIdx blockIdx blockDim gridDim warpSize clusterIdx clusterDim dim3 complex float16
    bfloat16 size_t ptrdiff_t kspec cupy NULL M_PI assert printf
    """.split()  # noqa: SIM905  (a list of words reads better)
)
_MACRO = re.compile(r"CUDART_\w+|__\w+__")  # of the headers, and of compilers

_INTEGER_WORDS = frozenset({"signed", "unsigned", "short", "long", "int", "char"})


def integer_name(words: Collection[str]) -> str:
    """Return one spelling for every way to write a C integer type; empty for other words.

    >>> integer_name(["long", "unsigned", "int"]), integer_name(["signed", "char"])
    ('unsigned long', 'signed char')
    """
    if not words or not _INTEGER_WORDS.issuperset(words):
        return ""
    if "char" in words:  # whose three kinds are three types
        sign = [word for word in ("unsigned", "signed") if word in words]
        return " ".join([*sign[:1], "char"])
    size = "short" if "short" in words else " ".join(["long"] * [*words].count("long")) or "int"
    return f"unsigned {size}" if "unsigned" in words else size


def leading_identifier(text: str) -> str:
    """Return the C identifier that a text begins with; empty if there is none."""
    found = _IDENTIFIER.match(text)
    return found[0] if found else ""


def is_identifier(word: str) -> bool:
    """Return whether `word` has the form of a C identifier."""
    return _IDENTIFIER.fullmatch(word) is not None


def name_problem(word: str) -> str:
    """Return why `word` cannot be a C++ name here, or the empty string."""
    if len(word) > NAME:
        return f"{word[:32]!r}... has more than {NAME} characters"
    if not is_identifier(word):
        return f"{word!r} is not a C identifier"
    if word in KEYWORDS:
        return f"{word!r} is a C++ keyword"
    if word in TAKEN or _MACRO.fullmatch(word):
        return f"{word!r} already means something in CUDA code"
    return ""
