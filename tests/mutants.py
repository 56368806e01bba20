"""Faults planted in the code, and whether the tests find them: ``python -m tests.mutants``.

::

    python -m tests.mutants --list                  # the sixty mutants of the seed
    python -m tests.mutants --out build/mutants     # run them; a line of JSON for each
    python -m tests.mutants --only 3,17 --drawn-from ../before --tree ../before

A mutant is one changed line of a module of ``kspec`` or of a template: another comparison, another
constant, a condition turned round, a statement left out.  Each runs in a copy of the tree.  Tests of
its package run first, and a run ends with its first failure, so that most mutants take a minute.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.projects import ROOT

SEED, COUNT = 59, 60
_COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
}
_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
}
_COPIED = ("kspec", "templates", "specs", "generated", "tests", "benchmarks", "examples", "docs")
_SKIPPED = shutil.ignore_patterns("__pycache__", "site", "_generated")


@dataclass(frozen=True)
class Mutant:
    """One changed line.

    Attributes
    ----------
    path : str
        File below the tree.
    line : int
        Number of the line.
    before, after : str
        The line, without its indentation.
    """

    path: str
    line: int
    before: str
    after: str

    def apply(self, tree: Path) -> None:
        """Change the line in a tree; in an older or newer one it may have another number."""
        path = tree / self.path
        lines = path.read_text(encoding="utf-8").split("\n")
        places = [k for k, text in enumerate(lines) if text.strip() == self.before]
        if not places:
            raise LookupError(f"{self.path} has no line {self.before!r}")
        place = min(places, key=lambda k: abs(k + 1 - self.line))
        lines[place] = lines[place].replace(self.before, self.after)
        path.write_text("\n".join(lines), encoding="utf-8")

    @property
    def tests(self) -> tuple[str, ...]:
        """Folders of tests to run first, the nearest one first."""
        parts = Path(self.path).with_suffix("").parts
        if parts[0] == "templates":
            return ("tests/render", "tests/build")
        nearest = [Path("tests", *parts[1:end]) for end in range(len(parts), 1, -1)]
        named = Path("tests", *parts[1:-1], f"test_{parts[-1]}.py")
        return tuple(path.as_posix() for path in (named, *nearest))


def mutants(tree: Path, seed: int = SEED, count: int = COUNT) -> list[Mutant]:
    """Return mutants drawn at random, each line of code with equal chances."""
    files = [*sorted((tree / "kspec").rglob("*.py")), *sorted((tree / "templates").rglob("*.j2"))]
    found: dict[tuple[str, int], list[Mutant]] = {}
    for path in files:
        name, text = path.relative_to(tree).as_posix(), path.read_text(encoding="utf-8")
        sites = _of_template(name, text) if path.suffix == ".j2" else _of_module(name, text)
        for one in sites:
            found.setdefault((one.path, one.line), []).append(one)
    draw = random.Random(seed)
    return [draw.choice(found[place]) for place in draw.sample(sorted(found), count)]


def _of_module(name: str, text: str) -> Iterator[Mutant]:
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if not line or node.end_lineno != line:  # type: ignore[attr-defined]
            continue
        whole = lines[line - 1].strip()
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        code = lines[line - 1].encode()[start:end].decode()
        for changed in _changes(node, code):
            after = whole.replace(code, changed, 1)
            if after != whole:
                yield Mutant(name, line, whole, after)


def _changes(node: ast.AST, code: str) -> Iterator[str]:
    """Yield other code for that of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old, new = _COMPARISONS[type(node.ops[0])]
        yield code.replace(old, new, 1)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        old, new = _OPERATORS[type(node.op)]
        yield code.replace(f" {old} ", f" {new} ", 1)
    elif isinstance(node, ast.BoolOp):
        yield (
            code.replace(" and ", " or ", 1)
            if isinstance(node.op, ast.And)
            else (code.replace(" or ", " and ", 1))
        )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield code.removeprefix("not ")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield str(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(node.orelse)} if {ast.unparse(node.test)} else {ast.unparse(node.body)})"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return None"
    elif isinstance(node, ast.Continue | ast.Break) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "pass"


def _of_template(name: str, text: str) -> Iterator[Mutant]:
    for number, line in enumerate(text.split("\n"), start=1):
        whole = line.strip()
        if condition := re.fullmatch(r"\{% (el)?if (.+) %\}", whole):
            yield Mutant(
                name, number, whole, f"{{% {condition[1] or ''}if not ({condition[2]}) %}}"
            )
        elif whole and not whole.startswith(("{%", "{#", "//")):
            yield Mutant(name, number, whole, "")


def run(mutant: Mutant, tree: Path, limit: float, workers: str) -> dict[str, object]:
    """Plant a mutant in a copy of a tree, and run the tests until one fails."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kspec-mutant-") as name:
        copy = Path(name)
        for part in _COPIED:
            shutil.copytree(tree / part, copy / part, ignore=_SKIPPED)
        for path in tree.iterdir():
            if path.is_file():
                shutil.copy(path, copy)
        (copy / ".cache").mkdir()
        if (tree / ".cache/kspec").is_dir():
            shutil.copytree(tree / ".cache/kspec", copy / ".cache/kspec")
        mutant.apply(copy)
        first = [one for one in mutant.tests if (copy / one).exists()]
        for tests in (*first, "tests"):
            left = limit - (time.monotonic() - started)
            outcome, said = _pytest(copy, tests, left, workers)
            if outcome:
                break
    return {
        **asdict(mutant),
        "killed": bool(outcome),
        "by": said,
        "seconds": round(time.monotonic() - started, 1),
    }


def _pytest(copy: Path, tests: str, limit: float, workers: str) -> tuple[str, str]:
    """Return how a run of tests has found a fault, empty if it has not, and the first finding."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", workers, "-p", "no:cacheprovider"]
    command += ["--dist", "worksteal", tests]
    path = os.pathsep.join(map(str, (copy, copy / "generated")))
    environment = {**os.environ, "PYTHONPATH": path, "HYPOTHESIS_PROFILE": "ci"}
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=max(limit, 1),
        )
    except subprocess.TimeoutExpired:
        return ("hangs", "timeout") if tests != "tests" else ("", "no failure in time")
    if done.returncode in (0, 5):  # passed, or none collected
        return "", ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return "fails", found[1] if found else (done.stdout + done.stderr)[-200:]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    parser.add_argument("--only", help="numbers of mutants, with commas")
    parser.add_argument("--tree", type=Path, default=ROOT, help="where they are planted")
    parser.add_argument("--drawn-from", type=Path, default=ROOT, help="another version of the tree")
    parser.add_argument("--out", type=Path, default=ROOT / "build/mutants")
    parser.add_argument("--jobs", type=int, default=1, help="mutants side by side")
    parser.add_argument("--workers", default="2", help="processes of each run of tests")
    parser.add_argument("--limit", type=float, default=5400, help="seconds for each mutant")
    options = parser.parse_args()
    drawn = list(enumerate(mutants(options.drawn_from, options.seed, options.count)))
    if options.only:
        drawn = [drawn[int(number)] for number in options.only.split(",")]
    if options.list:
        for number, one in drawn:
            print(f"{number:3} {one.path}:{one.line}\n      - {one.before}\n      + {one.after}")
        return
    options.out.mkdir(parents=True, exist_ok=True)

    def finish(pair: tuple[int, Mutant]) -> bool:
        found = run(pair[1], options.tree, options.limit, options.workers)
        (options.out / f"{pair[0]:03}.json").write_text(json.dumps(found, indent=1))
        print(
            f"{pair[0]:3} {'killed' if found['killed'] else 'SURVIVED':8} {found['by']}", flush=True
        )
        return bool(found["killed"])

    with ThreadPoolExecutor(options.jobs) as pool:
        killed = list(pool.map(finish, drawn))
    print(f"{sum(killed)} of {len(killed)} killed")


if __name__ == "__main__":
    main()
