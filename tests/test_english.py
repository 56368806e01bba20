"""Countable habits of translated prose are counted, and their number only goes down.

The rules, with pairs of before and after, are in the section "English" of CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = tuple(sorted((ROOT / "kspec").rglob("*.py")))
# Modules whose `__all__` and imports are the public API.
API = (
    "__init__",
    "dask/__init__",
    "jax/__init__",
    "jit/__init__",
    "jit/cg",
    "jit/cub",
    "jit/thrust",
    "runtime/texture/__init__",
    "sharded/__init__",
    "torch/__init__",
)
_CODE = re.compile(r"^```.*?^```$", re.M | re.S)  # in a page
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# How a docstring hides its noun: "Return what ...", "How ...", "Whoever ...".
OPENING = re.compile(
    r"(?:(?:Return|Yield|Say|Tell|Give) )?(?:what|who|whoever|which|how|where|when|as what)\b", re.I
)
HABITS = {
    "can not": re.compile(r"\bcan not\b", re.I),
    "nobody": re.compile(r"\b(?:nobody|whoever)\b", re.I),
    "is no": re.compile(
        r"(?<!there )\b(?:is|are|was|were|be|being) no "
        r"(?!longer\b|more\b|less\b|fewer\b|larger\b|slower\b|worse\b|part of\b)",
        re.I,
    ),
    "sentence that begins with Of": re.compile(r"(?:^|[.:;]\s+)Of (?!course\b)"),
    "noun-hiding what": re.compile(
        r"\b(?:of|by|from|with|in|on|than|as|beside|behind|before|after) what\b", re.I
    ),
}
WORDS = 25  # in a sentence of a message

# The most of each habit in a group, where it is not 0. A count may fall, never rise: lower its number
# here when it does.
CEILINGS: dict[str, dict[str, int]] = {}
SLACK = 10  # counts that fall further below their ceiling fail too


def test_no_habit_grows() -> None:
    assert not [
        f"{group}: {habit}: {count}, at most {CEILINGS.get(group, {}).get(habit, 0)}: {places}"
        for group, habit, count, places in _counts()
        if count > CEILINGS.get(group, {}).get(habit, 0)
    ]


def test_ceilings_are_lowered() -> None:
    counts = {(group, habit): count for group, habit, count, _ in _counts()}
    assert not [
        f"{group}: {habit}: {counts[group, habit]}; lower its ceiling of {ceiling}"
        for group, ceilings in CEILINGS.items()
        for habit, ceiling in ceilings.items()
        if counts[group, habit] < ceiling - SLACK
    ]


@pytest.mark.parametrize(
    "text, habit",
    [
        ("a kernel can not call a kernel", "can not"),
        ("memory that is nobody's", "nobody"),
        ("the package is no folder", "is no"),
        ("Of an array only the address is seen.", "sentence that begins with Of"),
        ("the shape of what it returns", "noun-hiding what"),
        ("Return what a call gives.", "opening"),
        ("How elements become one.", "opening"),
        ("of many words " * 9, "long sentence"),
    ],
)
def test_habits_are_found(text: str, habit: str) -> None:
    assert list(_habits(text, opens=True, limited=True)) == [habit]


@pytest.mark.parametrize(
    "text",
    [
        "x cannot be an operator",
        "there is no kernel k",
        "the build is no longer stale",
        "Outputs of a call.",
        "of many words, " * 8,
        "of many words; " * 9,
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert not list(_habits(text, opens=True, limited=True))


@cache
def _counts() -> tuple[tuple[str, str, int, str], ...]:
    """Group, habit, number and the first places, for every group and habit."""
    counts: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], list[str]] = {}
    groups = {group for group, _, _ in _texts()}
    for group, place, text in _texts():
        docstring = "docstring" in group
        for habit in _habits(text, opens=docstring, limited=group == "messages"):
            counts[group, habit] += 1
            places.setdefault((group, habit), []).append(place)
    return tuple(
        (group, habit, counts[group, habit], " ".join(places.get((group, habit), [])[:20]))
        for group in sorted(groups)
        for habit in (*HABITS, "opening", "long sentence")
    )


def _habits(text: str, opens: bool, limited: bool) -> Iterator[str]:
    flat = " ".join(text.split())
    for habit, pattern in HABITS.items():
        yield from (habit for _ in pattern.findall(flat))
    if opens and OPENING.match(flat):
        yield "opening"
    if limited:
        for sentence in re.split(r"[.;:]\s|\n", text):
            if len(sentence.split()) > WORDS and not _is_code(sentence):
                yield "long sentence"


def _is_code(text: str) -> bool:
    """Whether a literal is CUDA text, a pattern or a list of words."""
    return bool(re.search(r"\\[a-z(]|[(|]\?|::|[{}]|==", text)) or not re.search(
        r"\b(?:the|a|an|of)\b", text
    )


@cache
def _texts() -> tuple[tuple[str, str, str], ...]:
    """Group, place and text of all prose."""
    return (*_pages(), *_generated(), *_prose_of_modules())


def _pages() -> Iterator[tuple[str, str, str]]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = _CODE.sub(lambda code: "\n" * code[0].count("\n"), path.read_text(encoding="utf-8"))
        for number, paragraph in _paragraphs(text):
            yield "pages", f"{path.relative_to(ROOT)}:{number}", paragraph


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs of a page, each with its first line."""
    number = 1
    for part in re.split(r"(\n\s*\n)", text):
        if part.strip():
            yield number, part
        number += part.count("\n")


def _generated() -> Iterator[tuple[str, str, str]]:
    for path in sorted((ROOT / "generated").rglob("*.py")):
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, *DEFINITIONS)) and (text := ast.get_docstring(node)):
                yield "generated docstrings", f"{path.relative_to(ROOT)}:{_line(node)}", text


def _prose_of_modules() -> Iterator[tuple[str, str, str]]:
    public = _public_names()
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        shown = path.relative_to(ROOT)
        yield from (
            (group, f"{shown}:{line}", text)
            for group, line, text in (
                *_docstrings(tree, public),
                *_messages(tree),
                *_comments(source),
            )
        )


@cache
def _public_names() -> frozenset[str]:
    """Names that the public modules list in `__all__` or import."""
    names: set[str] = set()
    for name in API:
        tree = ast.parse((ROOT / "kspec" / f"{name}.py").read_bytes())
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kspec"):
                names.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names.update(
                    one.value
                    for one in ast.walk(node.value)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )
            elif isinstance(node, DEFINITIONS):
                names.add(node.name)
    return frozenset(name for name in names if not name.startswith("_"))


def _docstrings(tree: ast.Module, public: frozenset[str]) -> Iterator[tuple[str, int, str]]:
    if text := ast.get_docstring(tree):
        yield "module docstrings", 1, text
    for top in tree.body:
        for node in ast.walk(top):
            if not isinstance(node, DEFINITIONS) or not (text := ast.get_docstring(node)):
                continue
            is_public = getattr(top, "name", "") in public and not node.name.startswith("_")
            yield f"{'public' if is_public else 'private'} docstrings", _line(node), text


def _messages(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """String literals that are prose and no docstrings: messages, help, generated text."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        for inner in (ast.walk(node) if isinstance(node, ast.JoinedStr) else ())
        if inner is not node
    }
    skipped |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in skipped:
            text = _shown(node)
            if " " in text.strip():
                yield "messages", node.lineno, text


def _shown(node: ast.Constant | ast.JoinedStr) -> str:
    """A literal with one letter for each value that is filled in."""
    if isinstance(node, ast.JoinedStr):
        parts = (one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
        return "".join(map(str, parts))
    return node.value if isinstance(node.value, str) else ""


def _comments(source: str) -> Iterator[tuple[str, int, str]]:
    """Comments, those of adjacent lines as one."""
    first, last, lines = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if lines and line != last + 1:
            yield "comments", first, "\n".join(lines)
            lines = []
        first = first if lines else line
        lines.append(token.string.lstrip("# "))
        last = line
    if lines:
        yield "comments", first, "\n".join(lines)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)
