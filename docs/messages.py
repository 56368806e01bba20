"""The list at the end of docs/diagnostics.md, read from kspec's sources.

``python docs/messages.py`` writes it again.  A message stands where an exception, a fault of a spec
or a finding is made.  Words that depend on the call are shown as ‹name›.
"""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import re
import string
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kspec import errors

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/diagnostics.md"
BEGIN = "<!-- The rest is written by docs/messages.py. -->\n"
SPECS, FINDINGS, OTHERS = "In specs", "Of the compiler and the commands", "Exceptions of Python"
# The class of a message to its heading and the place of its text among the arguments.
MAKERS = {
    "Fault": (SPECS, 1),
    "SettingProblem": (SPECS, 1),
    "problem_at": (SPECS, 4),
    "Diagnostic": (FINDINGS, 1),
    "Mismatch": ("ShapeError", 0),
}
PLACES = {"DriverError": 1}
# Exceptions that Python's protocols ask for, or that kspec catches itself.
INTERNAL = {"AssertionError", "StopIteration", "EOFError", "KeyError", "KeyboardInterrupt"}
ALTERNATIVES = 8  # ways to say one thing, listed one by one; more are a ‹name›
WORDS = 2  # that a message has of its own

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A module, and what its functions and constants are called."""

    tree: ast.Module
    functions: dict[ast.AST, Function]  # the innermost one around each node
    calls: dict[str, list[ast.Call]]

    @staticmethod
    def read(path: Path) -> Source:
        """Parse a file."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions: dict[ast.AST, Function] = {}
        calls: dict[str, list[ast.Call]] = defaultdict(list)
        for node in ast.walk(tree):  # outer ones come first
            if isinstance(node, Function):
                functions |= dict.fromkeys(ast.walk(node), node)
                functions.pop(node)
            elif isinstance(node, ast.Call):
                calls[_callee(node)].append(node)
        return Source(tree, functions, dict(calls))

    def texts(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> list[str]:
        """Return the texts that an expression may be."""
        match node:
            case ast.Constant(value=str(text)):
                found = [text]
            case ast.JoinedStr(values=parts):
                found = _joined(self.texts(part, seen) for part in parts)
            case ast.FormattedValue(value=value) | ast.Starred(value=value):
                found = self.texts(value, seen)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                found = _joined((self.texts(left, seen), self.texts(right, seen)))
            case ast.IfExp(body=body, orelse=orelse):
                found = self.texts(body, seen) + self.texts(orelse, seen)
            case ast.Call(func=ast.Attribute(value=value, attr="format")):
                found = [_formatted(text) for text in self.texts(value, seen)]
            case ast.Name(id=name) if name not in seen:
                values = self._values(node)
                found = [one for value in values for one in self.texts(value, seen | {name})]
            case _:
                found = []
        found = list(dict.fromkeys(found))
        return found if 0 < len(found) <= ALTERNATIVES else [f"‹{_label(node)}›"]

    def _values(self, name: ast.Name) -> list[ast.expr]:
        """Return what a name stands for: its last assignment, or what callers pass."""
        function = self.functions.get(name)
        for scope in (function, self.tree):
            if scope is None:
                continue
            nodes = ast.walk(scope) if scope is function else scope.body
            before = [
                node.value
                for node in nodes
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)
                and node.value is not None
                and name.id in _targets(node)
                and (scope is self.tree or node.lineno <= name.lineno)
            ]
            if before:
                return [max(before, key=lambda value: value.lineno)]
            if (
                function is not None
                and scope is function
                and (passed := self._passed(name.id, function))
            ):
                return passed
        return []

    def _passed(self, name: str, function: Function) -> list[ast.expr]:
        names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        if name not in names:
            return []
        place = names.index(name) - (names[0] in ("self", "cls"))
        found = []
        for call in self.calls.get(function.name, ()):
            keywords = [one.value for one in call.keywords if one.arg == name]
            found += keywords or call.args[place : place + 1]
        return [one for one in found if not (isinstance(one, ast.Name) and one.id == name)]


def _callee(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {one.id for one in targets if isinstance(one, ast.Name)}


def _joined(parts: Iterable[list[str]]) -> list[str]:
    """Return every way to choose one text of each part."""
    return ["".join(chosen) for chosen in itertools.islice(itertools.product(*parts), 99)]


def _formatted(template: str) -> str:
    parts = string.Formatter().parse(template)
    return "".join(
        text + ("" if name is None else f"‹{name or '…'}›") for text, name, _, _ in parts
    )


def _label(node: ast.expr) -> str:
    """Return a word for what an expression stands for."""
    match node:
        case ast.Name(id=name):
            return name.strip("_")
        case ast.Attribute(value=value, attr=attr):
            return _label(value) if attr in ("name", "__name__") else attr.strip("_")
        case ast.Call(func=ast.Attribute(attr="join"), args=[one]) | ast.Call(args=[one]):
            return _label(one)
        case ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value)):
            return _label(value)
        case (
            ast.FormattedValue(value=value) | ast.GeneratorExp(elt=value) | ast.ListComp(elt=value)
        ):
            return _label(value)
        case _:
            return "…"


def _exceptions(sources: Iterable[Source]) -> dict[str, str]:
    """Return the exceptions that kspec may raise, each with the class that users catch."""
    found = {name: name for name, one in vars(errors).items() if isinstance(one, type)}
    for name, one in vars(builtins).items():
        if isinstance(one, type) and issubclass(one, Exception) and name not in INTERNAL:
            found[name] = OTHERS
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and node.name not in found:
                bases = (found.get(ast.unparse(base).rpartition(".")[2]) for base in node.bases)
                if base := next(filter(None, bases), None):
                    found[node.name] = base
    return found


def _sites(source: Source, exceptions: dict[str, str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield headings and the expressions of the messages below them."""
    for name, calls in source.calls.items():
        for call in calls:
            if name == "problem" and len(call.args) in (2, 3):  # of a call site, or of a scope
                yield "JitError", call.args[-1]
                continue
            heading, place = MAKERS.get(name) or (exceptions.get(name), PLACES.get(name, 0))
            if heading and isinstance(call.func, ast.Name) and len(call.args) > place:
                yield heading, call.args[place]


@functools.cache
def messages() -> dict[str, list[str]]:
    """Return the messages, by the class that is raised or where they are shown."""
    sources = [Source.read(path) for path in sorted((ROOT / "kspec").rglob("*.py"))]
    exceptions = _exceptions(sources)
    found: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for heading, node in _sites(source, exceptions):
            for text in source.texts(node):
                line = " ".join(text.split())
                own = re.sub(r"‹[^›]*›", "", line)
                if len(re.findall(r"[A-Za-z]{2,}", own)) >= WORDS:
                    found[heading].add(line)
    order = [*vars(errors), SPECS, FINDINGS, OTHERS]
    return {one: _distinct(found[one]) for one in sorted(found, key=order.index)}


def _distinct(texts: Iterable[str]) -> list[str]:
    """Return texts by their own words, one of those that have the same."""
    alike = {re.sub(r"‹[^›]*›", "‹›", text): text for text in sorted(texts, reverse=True)}
    return sorted(alike.values(), key=lambda text: re.sub(r"‹[^›]*›|\W", "", text).lower())


def _item(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    space = " " if "`" in (text[0], text[-1]) else ""
    return textwrap.fill(
        f"- {ticks}{space}{text}{space}{ticks}",
        98,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def section() -> str:
    """Return the list as Markdown."""
    parts = []
    for heading, texts in messages().items():
        doc = getattr(getattr(errors, heading, None), "__doc__", None)
        title = f"### `{heading}`" if doc else f"### {heading}"
        parts += [title, "", *([doc.split("\n\n")[0].replace("\n    ", " "), ""] if doc else [])]
        parts += [*map(_item, texts), ""]
    return "\n".join(parts)


def main() -> None:
    """Write the list into the page."""
    page = PAGE.read_text(encoding="utf-8")
    before = page[: page.index(BEGIN) + len(BEGIN)]
    PAGE.write_text(f"{before}\n{section()}".rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
