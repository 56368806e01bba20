"""Integer expressions in specs: text in, checked Python over harmless names out.

::

    ceil_div(n, block.x)        max(1, x.shape[0] // 2)        256 if n > 4096 else 64

Names are integers, or have integers as attributes; there are ``+ - * // %``, comparisons, ``and``,
``or``, ``not``, ``a if c else b``, ``min``, ``max`` and ``ceil_div``, all as in Python.  Nothing
else is accepted, so that what comes out can be compiled.

>>> scope = ExpressionScope({"n": Number("a0"), "x": Attributes("an array", {"size": "prod(s1)"})})
>>> parse_expression("ceil_div(x.size, n) + 1", scope).python
'((-(-prod(s1) // a0)) + 1)'

`kspec.model.raw.launch_rules` says which names there are in which expression.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import field

from kspec.dataclass import dataclass

FUNCTIONS = ("ceil_div", "max", "min")


@dataclass(frozen=True)
class Number:
    """A name that is an integer, or with `condition` true or false; `python` is what it becomes."""

    python: str
    condition: bool = False


@dataclass(frozen=True)
class Attributes:
    """A name that is not a number, but has some.

    Attributes
    ----------
    what : str
        Its description, for messages.
    numbers : mapping of str to str
        Attribute to what it becomes.
    sequences : mapping of str to str
        Attributes that are indexed by a constant.
    """

    what: str
    numbers: Mapping[str, str]
    sequences: Mapping[str, str] = field(default_factory=dict)

    @property
    def listed(self) -> str:
        """The attributes as they are written."""
        return ", ".join([*self.numbers, *(f"{name}[0]" for name in self.sequences)])


@dataclass(frozen=True)
class RefusedName:
    """A name that exists, and why it cannot be used."""

    reason: str


@dataclass(frozen=True)
class ExpressionScope:
    """The names of an expression."""

    names: Mapping[str, Number | Attributes | RefusedName]


@dataclass(frozen=True)
class Expression:
    """A checked expression.

    Attributes
    ----------
    text : str
        As it was written.
    python : str
        The same over the names of its scope's Python.
    values : tuple of (str, str)
        What it depends on: as it was written, and as Python.
    """

    text: str
    python: str
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Problem:
    """Problem with an expression, and the characters at fault."""

    message: str
    offset: int = 0
    length: int = 1


class ExpressionError(ValueError):
    """An expression is wrong; `problems` has all of them. Specs make faults of these."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problem.message for problem in problems))


def parse_expression(text: str, scope: ExpressionScope) -> Expression:
    """Check an expression.

    Raises
    ------
    ExpressionError
        With everything that is wrong with it.
    """
    source = text.replace("\n", " ").strip()
    start = len(text) - len(text.lstrip())
    if not source:
        raise ExpressionError((Problem("must not be empty"),))
    try:
        tree = ast.parse(source, mode="eval")
        translator = _Translator(source, scope)
        python = translator.number(tree.body)
        if not translator.problems:
            compile(python, "<expression>", "eval")  # it may be nested too deeply
    except SyntaxError as error:
        offset = start + max(0, (error.offset or 1) - 1)
        message = f"not an expression: {error.msg}"
        raise ExpressionError((Problem(message, min(offset, len(text) - 1)),)) from None
    except (ValueError, RecursionError, MemoryError):
        message = "not an expression, or one that is nested too deeply"
        raise ExpressionError((Problem(message, start, len(source)),)) from None
    if translator.problems:
        problems = (
            Problem(one.message, start + one.offset, one.length) for one in translator.problems
        )
        raise ExpressionError(tuple(problems))
    return Expression(text, python, tuple(dict.fromkeys(translator.values)))


def shape_parts(text: str) -> tuple[tuple[int, str], ...]:
    """Return the expressions of a shape with their offsets: those of a tuple, or one.

    >>> shape_parts("(a.shape[0], 4)"), shape_parts("2 * n"), shape_parts("()")
    (((1, 'a.shape[0]'), (13, '4')), ((0, '2 * n'),), ())
    """
    source = text.replace("\n", " ")
    start = len(source) - len(source.lstrip())
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ((0, text),)  # which is refused as an expression
    if not isinstance(tree, ast.Tuple):
        return ((0, text),)
    spans = [_span(source.strip(), node) for node in tree.elts]
    return tuple((start + first, source[start + first : start + last]) for first, last in spans)


_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.And: "and",
    ast.Or: "or",
}
_ALLOWED = (
    "an expression has integers, names, + - * // %, comparisons, and, or, not, a if c else b, "
    f"{', '.join(FUNCTIONS)}"
)


class _Translator:
    """Walks a syntax tree; each method returns Python text, in parentheses where needed."""

    def __init__(self, source: str, scope: ExpressionScope) -> None:
        self._source = source
        self._names = scope.names
        self.problems: list[Problem] = []
        self.values: list[tuple[str, str]] = []

    def number(self, node: ast.expr) -> str:
        """Return an integer's text."""
        return self._typed(node, condition=False)

    def condition(self, node: ast.expr) -> str:
        """Return a condition's text."""
        return self._typed(node, condition=True)

    def _typed(self, node: ast.expr, condition: bool) -> str:
        rules: Mapping[type[ast.expr], tuple[Callable[..., str], bool | None]] = {
            ast.Constant: (self._constant, False),
            ast.Name: (self._name, None),
            ast.Attribute: (self._attribute, False),
            ast.Subscript: (self._subscript, False),
            ast.BinOp: (self._binary, False),
            ast.UnaryOp: (self._unary, None),
            ast.Call: (self._call, False),
            ast.IfExp: (self._choice, None),
            ast.Compare: (self._comparison, True),
            ast.BoolOp: (self._logic, True),
        }
        rule, gives = rules.get(type(node), (None, None))
        if rule is None:
            return self._wrong(node, f"{self._text(node)!r} is not allowed: {_ALLOWED}")
        if gives is None:
            return rule(node, condition)
        if gives is not condition:
            return self._mismatch(node, condition)
        return rule(node)

    def _constant(self, node: ast.Constant) -> str:
        if type(node.value) is not int:
            return self._wrong(node, f"{self._text(node)} is not an integer")
        return repr(node.value)

    def _name(self, node: ast.Name, condition: bool) -> str:
        known = self._names.get(node.id)
        if isinstance(known, Number):
            if known.condition is not condition:
                return self._mismatch(node, condition)
            return self._value(node.id, known.python)
        if isinstance(known, Attributes):
            message = f"{node.id!r} is {known.what}, not an integer; it has {known.listed}"
            return self._wrong(node, message)
        if isinstance(known, RefusedName):
            return self._wrong(node, f"{node.id!r} {known.reason}")
        return self._wrong(node, self._unknown(node.id))

    def _attribute(self, node: ast.Attribute) -> str:
        known = self._owner(node)
        if known is None:
            return ""
        text = self._text(node)
        if node.attr in known.sequences:
            message = f"{text!r} is not an integer; write {text}[0]"
            return self._wrong(node, message)
        if node.attr not in known.numbers:
            message = f"{known.what} has {known.listed}, but no {node.attr!r}"
            return self._wrong(node, message)
        return self._value(text, known.numbers[node.attr])

    def _subscript(self, node: ast.Subscript) -> str:
        inner = node.value
        if not isinstance(inner, ast.Attribute):
            return self._wrong(node, f"{self._text(inner)!r} has no elements")
        known = self._owner(inner)
        if known is None:
            return ""
        if inner.attr not in known.sequences:
            return self._wrong(inner, f"{self._text(inner)!r} has no elements")
        index = _constant_index(node.slice)
        if index is None:
            return self._wrong(node.slice, "an axis is a constant, such as 0 or -1")
        sequence = self._value(self._text(inner), known.sequences[inner.attr])
        return f"{sequence}[{index}]"

    def _owner(self, node: ast.Attribute) -> Attributes | None:
        """Return the owner of the attribute, which is a name."""
        if not isinstance(node.value, ast.Name):
            self._wrong(node.value, f"{self._text(node.value)!r} has no attributes")
            return None
        known = self._names.get(node.value.id)
        if isinstance(known, Attributes):
            return known
        if known is None:
            self._wrong(node.value, self._unknown(node.value.id))
        elif isinstance(known, RefusedName):
            self._wrong(node.value, f"{node.value.id!r} {known.reason}")
        else:
            self._wrong(node, f"{node.value.id!r} is a number and has no attributes")
        return None

    def _binary(self, node: ast.BinOp) -> str:
        left, right = self.number(node.left), self.number(node.right)
        operator = _OPERATORS.get(type(node.op))
        if operator is None:
            hint = "; write // or ceil_div(a, b)" if isinstance(node.op, ast.Div) else ""
            return self._wrong(node, f"integers have + - * // %{hint}")
        return f"({left} {operator} {right})"

    def _unary(self, node: ast.UnaryOp, condition: bool) -> str:
        if isinstance(node.op, ast.Not):
            if not condition:
                return self._mismatch(node, condition)
            return f"(not {self.condition(node.operand)})"
        operator = _OPERATORS.get(type(node.op))
        if operator is None:
            return self._wrong(node, "integers have + - * // %")
        if condition:
            return self._mismatch(node, condition)
        return f"({operator}{self.number(node.operand)})"

    def _call(self, node: ast.Call) -> str:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            message = f"{self._text(node.func)!r} cannot be called; there are"
            return self._wrong(node.func, f"{message} {', '.join(FUNCTIONS)}")
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        count = len(node.args)
        fits = count == 2 if name == "ceil_div" else count >= 2
        if node.keywords or starred or not fits:
            least = "two" if name == "ceil_div" else "at least two"
            return self._wrong(node, f"{name} takes {least} integers, by position")
        arguments = [self.number(argument) for argument in node.args]
        if name == "ceil_div":
            return f"(-(-{arguments[0]} // {arguments[1]}))"
        return f"{name}({', '.join(arguments)})"

    def _choice(self, node: ast.IfExp, condition: bool) -> str:
        test = self.condition(node.test)
        body, other = (self._typed(one, condition) for one in (node.body, node.orelse))
        return f"({body} if {test} else {other})"

    def _comparison(self, node: ast.Compare) -> str:
        text = self.number(node.left)
        for operator, right in zip(node.ops, node.comparators, strict=True):
            symbol = _OPERATORS.get(type(operator))
            if symbol is None:
                return self._wrong(node, "integers are compared by < <= > >= == !=")
            text += f" {symbol} {self.number(right)}"
        return f"({text})"

    def _logic(self, node: ast.BoolOp) -> str:
        word = f" {_OPERATORS[type(node.op)]} "
        return f"({word.join([self.condition(value) for value in node.values])})"

    def _value(self, written: str, python: str) -> str:
        self.values.append((written, python))
        return python

    def _unknown(self, name: str) -> str:
        import difflib

        usable = [one for one, known in self._names.items() if not isinstance(known, RefusedName)]
        near = difflib.get_close_matches(name, usable, 1)
        if near:
            return f"unknown name {name!r}; did you mean {near[0]!r}?"
        return f"unknown name {name!r}; there are {', '.join(usable) or 'none'}"

    def _mismatch(self, node: ast.expr, condition: bool) -> str:
        text = self._text(node)
        if condition:
            return self._wrong(node, f"{text!r} is an integer; a condition compares, as {text} > 0")
        message = f"{text!r} is a condition, not an integer; write '1 if {text} else 0'"
        return self._wrong(node, message)

    def _wrong(self, node: ast.expr, message: str) -> str:
        start, end = self._span(node)
        self.problems.append(Problem(message, start, max(1, end - start)))
        return ""

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end]

    def _span(self, node: ast.expr) -> tuple[int, int]:
        return _span(self._source, node)


def _span(source: str, node: ast.expr) -> tuple[int, int]:
    """Return the characters of a node, which the parser counts in bytes."""
    data = source.encode()
    start, end = node.col_offset, node.end_col_offset or node.col_offset
    return len(data[:start].decode()), len(data[:end].decode())


def _constant_index(node: ast.expr) -> int | None:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return sign * node.value
    return None
