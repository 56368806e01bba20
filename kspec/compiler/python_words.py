r"""Errors of compilers about Python in CUDA text in, the same errors saying what to write out.

>>> said = Diagnostic("error", 'identifier "np" is undefined', "a.toml", 7, 5, 2, "y = np.sqrt(x)")
>>> [one.message for one in explained([said], CudaSource("a.cu", ""))]
["'np.sqrt' is Python; in CUDA C++ write 'sqrt'"]

So are calls that are ambiguous because of their types.  Only what a compiler has refused is looked
at, so that what a preamble defines is never taken for Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kspec.cpp.brackets import (
    expression_end,
    expression_start,
    group_end,
    is_operand,
    operand_end,
    operand_start,
    split_at_commas,
)
from kspec.cpp.flow import BY_VALUE
from kspec.cpp.kernel_heads import kernel_heads
from kspec.cpp.name_expressions import template_arguments
from kspec.cpp.tokens import Token, spelled, tokens_of
from kspec.diagnostics import Diagnostic
from kspec.model import dtypes
from kspec.model.stages import CudaSource

# In the words of NVRTC and nvcc; of clang; of g++.
_UNKNOWN = re.compile(
    r"identifier \"(\w+)\" is undefined|undeclared identifier '(\w+)'"
    r"|\u2018(\w+)\u2019 was not declared|no arguments to \u2018(\w+)\u2019"
)
_AMBIGUOUS = re.compile(
    r"more than one instance of overloaded function \"(\w+)\"|call to '(\w+)' is ambiguous"
    r"|call of overloaded \u2018(\w+)\("
)
_NO_ARRAY = re.compile(
    r"must have pointer-to-object type|subscripted value is not an array|for array subscript"
)
_NO_CLASS = re.compile(
    r"must have class type|is not a structure or union|request for member .* non-class type"
)
_NO_INTEGERS = re.compile(
    r"must have integral|invalid operands (?:to binary expression|of types .* to binary)"
)
_DECLARED = re.compile(r"^typedef (.+) (\w+);$", re.MULTILINE)

_MODULES = frozenset(["np", "numpy", "math", "cp", "cupy", "cmath", "jnp", "torch", "scipy"])
# Functions of modules; those with the same name in CUDA C++ are left out.
_FUNCTIONS = {
    "arctan2": "atan2",
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "absolute": "abs",
    "around": "rint",
    "gamma": "tgamma",
    "maximum": "max",
    "minimum": "min",
    **{"float16": "float16", "float32": "float", "float64": "double", "double": "double"},
    **{"int32": "int", "int64": "long long", "uint32": "unsigned", "bool_": "bool"},
}
# Functions that are operators in C++, with their arguments.
_OPERATORS = {
    "square": "{0} * {0}",
    "reciprocal": "1 / {0}",
    "print": r'printf("%g\n", double({0}))',
    "sign": "({0} > 0) - ({0} < 0)",
    "deg2rad": "{0} * (M_PI / 180)",
    "radians": "{0} * (M_PI / 180)",
    "floor_divide": "floor({0} / {1})",
    "mod": "{0} - {1} * floor({0} / {1})",
    "remainder": "{0} - {1} * floor({0} / {1})",
    "logical_and": "{0} && {1}",
    "logical_or": "{0} || {1}",
    "logical_not": "!{0}",
    "where": "{0} ? {1} : {2}",
    "clip": "{0} < {1} ? {1} : {0} > {2} ? {2} : {0}",
}
_VALUES = {"pi": "M_PI", "inf": "CUDART_INF", "nan": "CUDART_NAN"}
_WORDS = {"True": "true", "False": "false", "elif": "else if", **_VALUES}
_OF_ARRAYS = frozenset(
    ["sum", "mean", "prod", "dot", "matmul", "var", "std", "len", "cumsum", "any"]
)

_Rule = Callable[[Diagnostic, Sequence[Token], CudaSource], "Diagnostic | None"]


def explained(found: Iterable[Diagnostic], source: CudaSource) -> tuple[Diagnostic, ...]:
    """Return the findings of a compiler that failed, those about Python in words for its authors.

    What a compiler says beside them, of the same line or of text that kspec has written around it,
    is a consequence and left out.
    """
    found = tuple(found)
    said = {one: better for one in found if (better := _explained(one, source))}
    if not said:
        return found
    lines = {(one.path, one.line) for one in said}
    others = (source.name, "") if all(path != source.name for path, _ in lines) else ("",)
    kept = (
        said.get(one, one)
        for one in found
        if one in said
        or ((one.path, one.line) not in lines and one.path not in others and not _is_own(one))
    )
    return tuple(dict.fromkeys(kept))


def _is_own(one: Diagnostic) -> bool:
    return one.path.startswith("kspec/")


def _explained(one: Diagnostic, source: CudaSource) -> Diagnostic | None:
    if one.severity != "error" or not one.source_line or _is_own(one):
        return None
    tokens = [*tokens_of(one.source_line)]
    return next(filter(None, (rule(one, tokens, source) for rule in _RULES)), None)


def _at(one: Diagnostic, tokens: Sequence[Token], message: str) -> Diagnostic:
    """Return a finding about tokens of its line, in other words."""
    start, end = tokens[0].start, tokens[-1].end
    return replace(
        one, message=message, column=start + 1, length=end - start, details=(), code="", hint=""
    )


def _instead(one: Diagnostic, tokens: Sequence[Token], better: str) -> Diagnostic:
    return _at(one, tokens, f"'{spelled(tokens)}' is Python; in CUDA C++ write '{better}'")


def _word(pattern: re.Pattern[str], message: str) -> str:
    match = pattern.search(message)
    return next(filter(None, match.groups()), "") if match else ""


def _nearest(one: Diagnostic, tokens: Sequence[Token], *texts: str) -> int:
    """Return the index of the token of these texts that is nearest to a finding; -1 if none is."""
    places = [k for k, token in enumerate(tokens) if token.text in texts]
    return min(places, key=lambda k: abs(tokens[k].start - one.column + 1), default=-1)


def _grouped(tokens: Sequence[Token]) -> str:
    """Return the text of an operand, in brackets if it may be more than one."""
    whole = operand_end(tokens, 0) == len(tokens) and tokens[0].text not in "-+!"
    return spelled(tokens) if whole else f"({spelled(tokens)})"


def _power(base: Sequence[Token], exponent: Sequence[Token]) -> str:
    text, number = spelled(base), spelled(exponent)
    if len(base) == 1 and number in ("2", "3"):
        return " * ".join(int(number) * [text])
    return f"sqrt({text})" if number == "0.5" else f"pow({text}, {number})"


def _unknown_word(one: Diagnostic, tokens: Sequence[Token], _: CudaSource) -> Diagnostic | None:
    """Explain a name of Python's, or of a module such as NumPy."""
    word = _word(_UNKNOWN, one.message)
    start = _nearest(one, tokens, word) if word else -1
    if start < 0:
        return None
    end = start + 1
    while end + 1 < len(tokens) and tokens[end].text == "." and tokens[end + 1].kind == "word":
        end += 2
    is_module = word in _MODULES and end > start + 1
    name = tokens[end - 1].text if is_module else word
    whole = tokens[start:end] if is_module else tokens[start : start + 1]
    closed = group_end(tokens, end) if tokens[end : end + 1] and tokens[end].text == "(" else end
    given = split_at_commas(tokens[end + 1 : closed - 1]) if closed > end + 2 else []
    if name in _OF_ARRAYS:
        reason = "but text of a kernel sees one element; use a ReductionKernel, or raw inputs"
        return _at(one, whole, f"'{spelled(whole)}' is Python and takes arrays, {reason}")
    if name in ("power", "float_power") and len(given) == 2:
        return _instead(one, tokens[start:closed], _power(*given))
    written = _OPERATORS.get(name, "")
    if given and len(given) == len(set(re.findall(r"\{\d\}", written))):
        return _instead(one, tokens[start:closed], written.format(*map(_grouped, given)))
    if name == "None":
        reason = "in CUDA C++ every value is a number"
        return _at(one, whole, f"'None' is Python; {reason}, so write one")
    if name == "lambda":
        return _at(one, whole, "'lambda' is Python; in CUDA C++ write '[&](T a) { return a; }'")
    same = name if is_module and BY_VALUE.fullmatch(name) else ""
    better = (_FUNCTIONS | _WORDS).get(name, same)
    if better:
        return _instead(one, whole, better)
    if is_module:
        text = f"'{spelled(whole)}' is Python, and CUDA C++ has no function of that name"
        return _at(one, whole, text)
    begins = start == 0 or tokens[start - 1].text in (";", "{", "}")
    if begins and [token.text for token in tokens[end : end + 1]] == ["="]:
        value = spelled(tokens[end + 1 : expression_end(tokens, end + 1)])
        text = f"'{word}' is not declared; begin with its type, as in 'auto {word} = {value}'"
        return _at(one, whole, text)
    return None


def _nan(one: Diagnostic, tokens: Sequence[Token], _: CudaSource) -> Diagnostic | None:
    """Explain ``nan``, which is a function in C."""
    k = _nearest(one, tokens, "nan") if "const char" in one.message else -1
    is_called = [token.text for token in tokens[k + 1 : k + 2]] == ["("]
    return None if k < 0 or is_called else _instead(one, tokens[k : k + 1], _VALUES["nan"])


def _power_operator(one: Diagnostic, tokens: Sequence[Token], _: CudaSource) -> Diagnostic | None:
    """Explain ``x ** 2``; where it compiles, a pointer is meant."""
    for k in range(1, len(tokens) - 2):
        stars = [token.text for token in tokens[k : k + 2]] == ["*", "*"]
        if stars and tokens[k].end == tokens[k + 1].start and is_operand(tokens, k - 1):
            start, end = operand_start(tokens, k), operand_end(tokens, k + 2)
            if _is_within(one, tokens[start:end]):
                better = _power(tokens[start:k], tokens[k + 2 : end])
                return _instead(one, tokens[start:end], better)
    return None


def _is_within(one: Diagnostic, tokens: Sequence[Token]) -> bool:
    return not one.column or tokens[0].start < one.column <= tokens[-1].end


def _conditional(one: Diagnostic, tokens: Sequence[Token], _: CudaSource) -> Diagnostic | None:
    """Explain ``a if c else b``."""
    texts = [token.text for token in tokens]
    for k in range(1, len(tokens)):
        if texts[k] != "if" or "else" not in texts[k:] or not is_operand(tokens, k - 1):
            continue
        other = texts.index("else", k)
        start = expression_start(tokens, k)
        end = expression_end(tokens, other + 1)
        if other + 1 < end and set(texts[k:other]).isdisjoint(";{}"):
            parts = (tokens[k + 1 : other], tokens[start:k], tokens[other + 1 : end])
            condition, chosen, rest = map(spelled, parts)
            return _instead(one, tokens[start:end], f"{condition} ? {chosen} : {rest}")
    return None


def _statement(one: Diagnostic, tokens: Sequence[Token], _: CudaSource) -> Diagnostic | None:
    """Explain ``if c:``, ``for k in range(n):`` and their like."""
    texts = [token.text for token in tokens]
    if ":" not in texts or "?" in texts or texts[0] not in ("if", "elif", "else", "while", "for"):
        return None
    colon = texts.index(":")
    asked = tokens[1:colon]
    if texts[0] == "for":
        if colon < 3 or texts[2] != "in":
            return None
        name = texts[1]
        return _instead(
            one, tokens[: colon + 1], f"for (int {name} = 0; {name} < n; ++{name}) {{ }}"
        )
    if (texts[0] == "else") != (not asked):
        return None
    word = "else if" if texts[0] == "elif" else texts[0]
    condition = f" ({spelled(asked)})" if asked and asked[0].text != "(" else ""
    condition = condition or "".join([" ", spelled(asked)] if asked else [])
    return _instead(one, tokens[: colon + 1], f"{word}{condition} {{ }}")


def _mark(one: Diagnostic, tokens: Sequence[Token], _: CudaSource) -> Diagnostic | None:
    """Explain marks and words of Python that C++ does not have."""
    for k, token in enumerate(tokens):
        if not (k and token.start < one.column <= token.end and is_operand(tokens, k - 1)):
            continue
        if token.text == "#":
            return _at(one, tokens[k : k + 1], "comments of CUDA C++ begin with '//', not '#'")
        if token.text == "is":
            better = "!=" if tokens[k + 1 : k + 2] and tokens[k + 1].text == "not" else "=="
            return _instead(one, tokens[k : k + 1 + (better == "!=")], better)
        if token.text == "@":
            reason = "CUDA C++ has no product of matrices; see docs/core-dimensions.md"
            return _at(one, tokens[k : k + 1], f"'@' is Python; {reason}")
    return None


def _method(one: Diagnostic, tokens: Sequence[Token], source: CudaSource) -> Diagnostic | None:
    """Explain a method of a parameter, which is one element."""
    k = _nearest(one, tokens, ".") if _NO_CLASS.search(one.message) else -1
    if k < 1 or len(tokens) < k + 3 or f"_arg_{tokens[k - 1].text}" not in source.text:
        return None
    name, method = tokens[k - 1].text, tokens[k + 1].text
    whole = tokens[k - 1 : k + 2]
    if method == "astype":
        return _instead(one, whole, f"float({name})', 'double({name})")
    message = f"{name} is one element, and numbers have no '.{method}'"
    if method in _OF_ARRAYS | {"min", "max"}:
        message += "; reduce arrays by a ReductionKernel"
    return _at(one, whole, message)


def _index(one: Diagnostic, tokens: Sequence[Token], source: CudaSource) -> Diagnostic | None:
    """Explain an index of a parameter, which is one element."""
    if not _NO_ARRAY.search(one.message):
        return None
    for k in range(1, len(tokens)):
        name = tokens[k - 1].text
        if tokens[k].text == "[" and f"_arg_{name}" in source.text:
            message = f"{name} is one element; declare it raw, as in 'raw T {name}', to index it"
            return _at(one, tokens[k - 1 : k], message)
    return None


def _integers_only(one: Diagnostic, tokens: Sequence[Token], _: CudaSource) -> Diagnostic | None:
    """Explain ``%`` and ``^`` of floating-point numbers."""
    k = _nearest(one, tokens, "%", "^") if _NO_INTEGERS.search(one.message) else -1
    if k < 1 or not is_operand(tokens, k - 1):
        return None
    start, end = operand_start(tokens, k), operand_end(tokens, k + 1)
    left, right = tokens[start:k], tokens[k + 1 : end]
    if tokens[k].text == "^":
        better = _power(left, right)
        reason = "is for integers, whose bits it compares; for a power"
    else:
        better = f"fmod({spelled(left)}, {spelled(right)})"
        reason = "is for integers; for floating-point numbers"
    return _at(one, tokens[start:end], f"'{tokens[k].text}' {reason} write '{better}'")


def _ambiguous(one: Diagnostic, tokens: Sequence[Token], source: CudaSource) -> Diagnostic | None:
    """Explain a call by the types that the function takes, and those it was given."""
    name = _word(_AMBIGUOUS, one.message)
    start = _nearest(one, tokens, name) if name else -1
    if start < 0 or tokens[start + 1 : start + 2] == [] or tokens[start + 1].text != "(":
        return None
    call = tokens[start : group_end(tokens, start + 1)]
    given = split_at_commas(call[2:-1])
    bound = _bound_types(source, one.kernel)
    integers = [f"{key} is {kind}" for key, kinds in bound.items() for kind in kinds[:1]]
    if name not in ("min", "max") and (integers or len(given) == 1):
        better = f"{name}({', '.join(f'double({spelled(arg)})' for arg in given)})"
        found = f", and {', '.join(integers)}; pass floating-point arrays, or" if integers else ";"
        return _at(one, call, f"{name} takes floating-point numbers{found} write '{better}'")
    first = next((spelled(arg) for arg in given if arg and arg[0].kind == "word"), "")
    if len(given) < 2 or not first:
        return None
    declared = re.search(rf"kspec::\w+<(\w+)> _arg_{re.escape(first)}\b", source.text)
    kind = declared[1] if declared else f"decltype({first})"
    texts = [text if (text := spelled(arg)) == first else f"{kind}({text})" for arg in given]
    better = f"{name}({', '.join(texts)})"
    return _at(one, call, f"the arguments of {name} have different types; write '{better}'")


def _bound_types(source: CudaSource, kernel: str) -> Mapping[str, list[str]]:
    """Return the integer dtypes that placeholders stand for."""
    found: dict[str, list[str]] = {}
    for name, spelling in _spellings(source, kernel):
        row = dtypes.from_ctype(spelling)
        if name and row is not None and row.kind in "iub" and row.name not in found.get(name, ()):
            found.setdefault(name, []).append(row.name)
    return found


def _spellings(source: CudaSource, kernel: str) -> Iterator[tuple[str, str]]:
    """Yield placeholders and their C++ types: of one specialization, or of all of a template."""
    for match in _DECLARED.finditer(source.text):
        yield match[2], match[1]
    heads = [head for head in kernel_heads(source.text) if head.name == kernel]
    for expression in source.name_expressions:
        if expression.partition("<")[0] == kernel:
            for head in heads:
                names = (one[-1].text if one[1:] else "" for one in head.template)
                yield from zip(names, template_arguments(expression), strict=False)


_RULES: tuple[_Rule, ...] = (
    _unknown_word,
    _nan,
    _power_operator,
    _conditional,
    _statement,
    _mark,
    _method,
    _index,
    _integers_only,
    _ambiguous,
)
