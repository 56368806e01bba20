"""docs/tutorial: the pages run in order, in one folder and without a GPU, and print what they show.

The first line of a block says how it runs:

* ``toml file=PATH`` and ``python file=PATH``: the text of a file, which is written.
* ``console``: commands behind ``$ ``, each followed by its output where that is shown.
* ``python``: a session.  Adjacent ones share a process; a file or a command ends it.
* ``python gpu``, ``sh`` and ``text``: not run.

``...`` stands for any text of an output.
"""

from __future__ import annotations

import doctest
import importlib.metadata
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packaging.builds import kspec_wheel, plugin, shared_folder, succeed, users_environment
from tests.projects import ROOT

PAGES = sorted((ROOT / "docs/tutorial").glob("*.md"))
MOST_LINES, WIDEST = 90, 120

_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r" file=(\S+)")
_PROGRESS = re.compile(r"^(?:compiling|running|testing) \d+/\d+: .*\n", re.MULTILINE)
_FAILURE = re.compile(r": error: |^kspec: \d+ of \d+ fail$", re.MULTILINE)
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What pip installs from an index beside kspec; the tests link it instead.
NEEDED = ("numpy", "cuda-bindings", "cuda-pathfinder")


@dataclass(frozen=True)
class Block:
    """A fenced block: the line of its text, its language, the words behind that, and the text."""

    line: int
    language: str
    info: str
    text: str

    @property
    def file(self) -> str | None:
        found = _FILE.fullmatch(self.info)
        return found and found[1]

    @property
    def is_session(self) -> bool:
        return self.language == "python" and not self.info


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, match.start(3)) + 1, match[1], match[2], match[3])
        for match in _FENCE.finditer(text)
    ]


@dataclass
class Reader:
    """A reader of the pages: the folder that their shell is in, and their environment variables."""

    folder: Path
    variables: dict[str, str]

    def follow(self, page: Path) -> None:
        session: list[Block] = []
        for block in blocks(page):
            if block.is_session:
                session.append(block)
                continue
            if block.file or block.language == "console":
                self._type(page, session)
                session = []
            if block.file:
                path = self.folder / block.file
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
            elif block.language == "console":
                for command, shown in _commands(block.text):
                    self._execute(f"{page.name}: $ {command}", command, shown)
        self._type(page, session)

    def _execute(self, place: str, command: str, shown: str) -> None:
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
            return
        done = self._run(["bash", "-c", command])
        printed = _PROGRESS.sub("", done.stdout)
        fails = bool(_FAILURE.search(shown))
        assert (done.returncode != 0) == fails, f"{place}\n{printed}"
        same = not shown or doctest.OutputChecker().check_output(shown, printed, _LIKE)
        assert same, f"{place}\n{printed}"
        if command.startswith("python -m venv "):
            _link_needed(self.folder / command.split()[-1])

    def _type(self, page: Path, session: list[Block]) -> None:
        """Run blocks as one session; failures name the lines of the page."""
        if not session:
            return
        text = ""
        for block in session:
            text += "\n" * (block.line - 1 - text.count("\n")) + block.text
        path = self.folder.parent / page.name
        path.write_text(text, encoding="utf-8")
        done = self._run(["python", "-m", "doctest", "-o", "ELLIPSIS", str(path)])
        assert done.returncode == 0, done.stdout

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block, and the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _packages(environment: Path) -> Path:
    (found,) = (environment / "lib").glob("python*/site-packages")
    return found


def _link_needed(environment: Path) -> None:
    """Let a new environment have the dependencies of kspec, for pip has no index here."""
    for name in NEEDED:
        distribution = importlib.metadata.distribution(name)
        for top in {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}:
            link = _packages(environment) / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture
def reader(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Return a reader whose environment has kspec, its tools and what is installed here."""
    environment, folder = tmp_path / "environment", tmp_path / "reader"
    succeed([sys.executable, "-m", "venv", "--without-pip", str(environment)], tmp_path, {})
    paths = [plugin(tmp_path / "plugin"), ROOT, sysconfig.get_path("purelib")]
    (_packages(environment) / "tools.pth").write_text("".join(f"{path}\n" for path in paths))
    for name, module in {"kspec": "kspec.build", "pip": "pip", "pytest": "pytest"}.items():
        script = environment / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{environment}/bin/python" -m {module} "$@"\n')
        script.chmod(0o755)
    folder.mkdir()
    variables = users_environment(kspec_wheel(shared_folder(tmp_path_factory)).parent)
    variables |= {
        "PATH": f"{environment / 'bin'}:{variables['PATH']}",
        "COLUMNS": "100",
        "CUDA_VISIBLE_DEVICES": "",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # 0: without isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return Reader(folder, variables)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_tutorial_runs_from_the_first_page_to_the_last(reader: Reader) -> None:
    for page in PAGES:
        reader.follow(page)


def test_the_pages_are_linked_in_order() -> None:
    names = [page.name for page in PAGES]
    assert [name[0] for name in names] == list("1234567")
    for page, following in zip(PAGES, names[1:], strict=False):
        assert f"]({following}).\n" in page.read_text(encoding="utf-8")[-80:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= MOST_LINES
    assert not [line for line in lines if len(line) > WIDEST]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_runs_without_a_gpu(page: Path) -> None:
    """Only the page about GPUs has blocks that the test leaves out; no info string is misspelt."""
    found = {(block.language, "" if block.file else block.info) for block in blocks(page)}
    allowed = {("sh", ""), ("text", ""), ("console", ""), ("python", ""), ("toml", "")}
    allowed |= {("python", " gpu")} if page.name == "6-gpu.md" else set()
    assert found <= allowed
    assert all(block.file for block in blocks(page) if block.language == "toml")
    assert found & {("console", ""), ("python", "")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"`[^`]*`", "", _FENCE.sub("", text))):
        assert (page.parent / target).exists(), target
