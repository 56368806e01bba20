"""The names that kernels use, and the place of a preamble: text in, plain answers out.

>>> sorted(preamble_names("static const int rows = 3; __device__ int sq(int n);"))
['__device__', 'const', 'int', 'rows', 'sq', 'static']
>>> needs_global_scope("template <> struct std::is_signed<float16> : std::true_type {};")
True

A scan for words, not a parser: a name may be reported that is not declared, but none is missed that
stands outside of all brackets.  `kspec.spec.models` asks whether a name is the user's own and what
is an array, `kspec.render.context` where the preamble of a spec file's kernel goes.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-z_]\w*")
# Comments, literals (quotes in numbers separate digits), directives, parameters of templates.
_NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?(?:\*/|\Z) | "(?:\\.|[^"\\\n])*"
    | \b\d[\w.]*(?:'[\w.]+)* | '(?:\\.|[^'\\\n])*'
    | ^[ \t]*\#(?:\\\n|[^\n])* | \btemplate\s*<[^<>;{]*>""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_BRACKETS = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
# A statement that begins with a type and a name.
_TYPE = r"(?:(?:const|unsigned|static|long)\s+)*[\w:]+(?:<[^;]*>)?[\s*&]+"
_VARIABLE = rf"(?:^|[;{{{{}}}}(])\s*{_TYPE}{{}}\s*[=;,({{{{\[]"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
# The specialization of another namespace's template, and more of a namespace that headers have.
_GLOBAL = re.compile(
    r"\btemplate\s*<\s*>[^<;{(]*\w\s*::|\bnamespace\s+(?:std|cuda|thrust|kspec|cupy)\b"
)


def preamble_names(text: str) -> frozenset[str]:
    """Return the words of a preamble outside of all brackets, and its macros."""
    code = _NOT_CODE.sub(" ", text)
    while (inner := _BRACKETS.sub(" ", code)) != code:
        code = inner
    return frozenset(_WORD.findall(code)) | frozenset(_MACRO.findall(text))


def declares_variable(name: str, statements: str) -> bool:
    """Return whether statements declare a variable of some name.

    >>> declares_variable("n", "int n = 3;"), declares_variable("n", "int k = 2 * n;")
    (True, False)
    """
    return re.search(_VARIABLE.format(name), _NOT_CODE.sub(" ", statements)) is not None


def is_used_as_array(name: str, text: str) -> bool:
    """Return whether a text indexes something, or reads a member of it.

    >>> is_used_as_array("x", "y = (x)[0]"), is_used_as_array("x", "y = 2 * x")
    (True, False)
    """
    return re.search(rf"\b{name}\b[\s)]*(?:\[|\.|->)", _COMMENT.sub(" ", text)) is not None


def needs_global_scope(preamble: str) -> bool:
    """Return whether C++ allows a preamble in the global namespace only."""
    return _GLOBAL.search(_COMMENT.sub(" ", preamble)) is not None
