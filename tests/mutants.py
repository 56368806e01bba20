"""Faults planted in the code, and whether the tests find them: ``python -m tests.mutants``.

::

    python -m tests.mutants --list              # the sixty mutants of the seed
    python -m tests.mutants --reach             # which tests run each line; once, as long as all tests
    python -m tests.mutants                     # run them; a file of JSON for each
    python -m tests.mutants --only 3,17 --drawn-from ../before --tree ../before

A mutant is one changed line of a module of ``kspec`` or of a template: another comparison, another
constant, a condition turned round, a statement left out.  Each runs in a copy of the tree, where
types are checked, then the tests of its package run, then all that reach its line.  A run ends with
its first failure, so that most mutants take a minute.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dist", "worksteal")
_PROBE = "reached_lines"
_PROBE_TEXT = """import os
SEEN = set()
def reached(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if (number, test) not in SEEN:
        SEEN.add((number, test))
        with open(f"{folder}/{{number}}", "a") as notes:
            notes.write(test + "\\n")
"""
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
        """Change the line in a tree."""
        one = self.located(tree)
        path, place = tree / one.path, one.line - 1
        lines = path.read_text(encoding="utf-8").split("\n")
        lines[place] = lines[place].replace(self.before, self.after)
        path.write_text("\n".join(lines), encoding="utf-8")

    def located(self, tree: Path) -> Mutant:
        """Return the mutant where its line is in a tree; its module may have another place."""
        path = tree / self.path
        if places := self._lines(path):
            return replace(self, line=min(places, key=lambda k: abs(k - self.line)))
        others = [one for one in sorted((tree / "kspec").rglob("*.py")) if self._lines(one)]
        if len(others) != 1:
            raise LookupError(f"{self.path} has no line {self.before!r}")
        (line, *_) = self._lines(others[0])
        return replace(self, path=others[0].relative_to(tree).as_posix(), line=line)

    def _lines(self, path: Path) -> list[int]:
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        return [k for k, text in enumerate(lines, start=1) if text.strip() == self.before]

    def probe(self, tree: Path, number: int) -> None:
        """Let a module note the tests that run the statement of the line."""
        path = tree / self.path
        lines = path.read_text(encoding="utf-8").split("\n")
        inside = [
            one
            for one in ast.walk(ast.parse("\n".join(lines)))
            if isinstance(one, ast.stmt) and _first_line(one) <= self.line <= (one.end_lineno or 0)
        ]
        place = _first_line(max(inside, key=_first_line)) - 1
        line = lines[place]
        if line.lstrip().startswith(("elif ", "else", "except", "finally", "case ")):
            return
        indent = line[: len(line) - len(line.lstrip())]
        call = f"__import__('kspec.{_PROBE}', fromlist=['_']).reached({number})"
        lines[place] = f"{indent}{call}\n{line}"
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


def _first_line(statement: ast.stmt) -> int:
    return min(
        [statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))]
    )


@contextmanager
def _copy_of(tree: Path) -> Iterator[Path]:
    """Make a copy of a tree, with its caches."""
    with tempfile.TemporaryDirectory(prefix="kspec-mutant-", ignore_cleanup_errors=True) as name:
        copy = Path(name)
        for part in _COPIED:
            shutil.copytree(tree / part, copy / part, ignore=_SKIPPED)
        for path in tree.iterdir():
            if path.is_file():
                shutil.copy(path, copy)
        for cache in (".cache/kspec", ".mypy_cache"):
            if (tree / cache).is_dir():
                shutil.copytree(tree / cache, copy / cache)
        yield copy


def reach(drawn: Sequence[tuple[int, Mutant]], tree: Path, workers: str) -> dict[int, list[str]]:
    """Run all tests once; return those that run the line of each mutant of a module.

    Lines that run when a module is imported are those of every test, and have none here.
    """
    with _copy_of(tree) as copy:
        notes = copy / "reached"
        notes.mkdir()
        (copy / f"kspec/{_PROBE}.py").write_text(_PROBE_TEXT.format(folder=str(notes)))
        for number, one in drawn:
            if one.path.endswith(".py"):
                with contextlib.suppress(LookupError):
                    one.located(copy).probe(copy, number)
        _run([*_PYTEST, "-n", workers, "tests"], copy, None)
        found = {int(path.name): path.read_text().splitlines() for path in notes.iterdir()}
    return {number: sorted({*tests}) for number, tests in found.items() if "" not in tests}


def run(
    mutant: Mutant, tree: Path, limit: float, workers: str, reached: Sequence[str] | None = None
) -> dict[str, object]:
    """Plant a mutant in a copy of a tree; check its types, and run tests until one fails."""
    started = time.monotonic()
    with _copy_of(tree) as copy:
        mutant.apply(copy)
        first = [one for one in mutant.tests if (copy / one).exists()]
        outcome, said = _lint(copy)
        for tests in (*([one] for one in first), [*reached] if reached else ["tests"]):
            if outcome:
                break
            left = limit - (time.monotonic() - started)
            outcome, said = _pytest(copy, tests, left, workers)
    return {
        **asdict(mutant),
        "killed": bool(outcome),
        "by": said,
        "seconds": round(time.monotonic() - started, 1),
    }


def _lint(copy: Path) -> tuple[str, str]:
    """Return how `make lint` finds a fault."""
    for tool in (["ruff", "check", "kspec"], ["mypy"]):
        done = _run([sys.executable, "-m", *tool], copy, None)
        if done.returncode:
            return "fails", f"{tool[0]}: {done.stdout.splitlines()[0] if done.stdout else ''}"
    return "", ""


def _pytest(copy: Path, tests: Sequence[str], limit: float, workers: str) -> tuple[str, str]:
    """Return how a run of tests has found a fault, empty if it has not, and the first finding."""
    (copy / "selected").write_text("\n".join(tests))
    try:
        done = _run([*_PYTEST, "-x", "-n", workers, "@selected"], copy, max(limit, 1))
    except subprocess.TimeoutExpired:
        return "", "no failure in time"
    if done.returncode in (0, 5):  # passed, or none collected
        return "", ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return "fails", found[1] if found else (done.stdout + done.stderr)[-200:]


def _run(
    command: Sequence[str], copy: Path, limit: float | None
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (copy, copy / "generated")))
    environment = {**os.environ, "PYTHONPATH": path, "HYPOTHESIS_PROFILE": "ci"}
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, said = process.communicate(timeout=limit)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
            raise
    return subprocess.CompletedProcess(command, process.returncode, printed, said)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    parser.add_argument("--reach", action="store_true", help="note the tests that run each line")
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
    notes = options.out / "reach.json"
    if options.reach:
        notes.write_text(json.dumps(reach(drawn, options.tree, options.workers), indent=1))
        return
    reached = json.loads(notes.read_text()) if notes.exists() else {}

    def finish(pair: tuple[int, Mutant]) -> bool:
        tests = reached.get(str(pair[0]))
        try:
            found = run(pair[1], options.tree, options.limit, options.workers, tests)
        except LookupError as error:  # the line is gone
            found = {**asdict(pair[1]), "killed": None, "by": str(error), "seconds": 0}
        (options.out / f"{pair[0]:03}.json").write_text(json.dumps(found, indent=1))
        verdict = {True: "killed", False: "SURVIVED", None: "gone"}[found["killed"]]
        print(f"{pair[0]:3} {verdict:8} {found['by']}", flush=True)
        return bool(found["killed"])

    with ThreadPoolExecutor(options.jobs) as pool:
        killed = list(pool.map(finish, drawn))
    print(f"{sum(killed)} of {len(killed)} killed")


if __name__ == "__main__":
    main()
