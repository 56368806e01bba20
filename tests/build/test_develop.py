"""Packages that are watched: built again on import when their specs have changed, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kspec.build import atomic_replace, develop, stamp, watch
from kspec.build.plan import make_plan
from kspec.build.project import build_project
from kspec.build.settings import load_settings
from tests.projects import BLOCKED, ROOT, environment, files_of, write_project

USE = "from toy_kernels import squares; import numpy as np; print(squares.square(np.float32([3])))"


def install(toy: Path, folder: Path) -> Path:
    """Do what an editable install does; return the folder of the environment."""
    folder.mkdir()
    plan = make_plan(load_settings(toy))
    develop.editable_files(plan, folder)
    stamp.write_stamp(plan, time.time())
    return folder


def python(
    code: str, site: Path, *, before: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a process that reads the ``.pth`` files of a folder."""
    code = f"{before}\nimport site; site.addsitedir({str(site)!r})\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**environment(ROOT), **variables},
        cwd=site,
        capture_output=True,
        text=True,
        check=False,
    )


def printed(code: str, site: Path) -> str:
    done = python(code, site)
    assert not done.returncode, done.stderr
    return done.stdout


def edit(toy: Path, old: str = "x * x", new: str = "x * x + 1") -> None:
    path = toy / "specs/squares.toml"
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def site(toy: Path, tmp_path: Path) -> Path:
    build_project(toy, compiling=False)
    return install(toy, tmp_path / "site")


def test_a_changed_spec_is_built_on_import(toy: Path, site: Path) -> None:
    assert printed(USE, site) == "[9.]\n"
    edit(toy)
    assert printed(USE, site) == "[10.]\n"
    before = files_of(toy)
    again = python(f"{USE}\nimport sys\nprint('pydantic' in sys.modules)", site)
    assert again.stdout == "[10.]\nFalse\n" and files_of(toy) == before


def test_nothing_of_kspec_is_imported_before_the_package(site: Path) -> None:
    code = "import sys; print([name for name in sys.modules if name.split('.')[0] == 'kspec'])"
    assert printed(code, site) == "[]\n"


def test_an_up_to_date_package_needs_no_author(site: Path) -> None:
    done = python(USE, site, before=BLOCKED)
    assert done.stdout == "[9.]\n", done.stderr


def test_a_stale_package_is_not_imported_where_it_can_not_be_built(toy: Path, site: Path) -> None:
    edit(toy)
    done = python(USE, site, before=BLOCKED)
    assert done.returncode and done.stdout == ""
    assert "ToolNotFoundError" in done.stderr and "pip install 'kspec[cu13]'" in done.stderr
    done = python(USE, site, KSPEC_JIT="never")
    assert done.returncode and done.stdout == ""
    assert "KSPEC_JIT=never forbids to rebuild it on import; run `kspec build`" in done.stderr


def test_what_is_wrong_with_a_spec_is_said_and_the_old_package_not_used(
    toy: Path, site: Path
) -> None:
    edit(toy, "operation", "opperation")
    twice = "try:\n    import toy_kernels\nexcept Exception as error: print(type(error).__name__)"
    done = python(f"{twice}\n{USE}", site)
    assert done.returncode and done.stdout == "SpecFileError\n"
    assert "specs/squares.toml:7:1: error: unknown key 'opperation'" in done.stderr
    edit(toy, "opperation", "operation")
    assert printed(USE, site) == "[9.]\n"


@pytest.mark.parametrize("name", ["toy_kernels/squares.py", "toy_kernels/squares.cu"])
def test_an_edited_or_lost_file_of_the_package_is_made_again(
    toy: Path, site: Path, name: str
) -> None:
    path = toy / "generated" / name
    before = path.read_bytes()
    path.write_bytes(before + b"\n")
    assert printed(USE, site) == "[9.]\n" and path.read_bytes() == before
    path.unlink()
    assert printed(USE, site) == "[9.]\n" and path.read_bytes() == before


@pytest.mark.parametrize(
    "include",
    [
        '#include "amount.cuh"',
        "#define H <amount.cuh>\n#include H",
        "#include /* it */ <amount.cuh>",
    ],
)
def test_headers_count_wherever_they_are_and_however_named(
    toy: Path, tmp_path: Path, include: str
) -> None:
    (toy / "specs/amount.cuh").rename(toy / "amount.cuh")
    path = toy / "specs/shifts.toml"
    text = path.read_text().replace("params", 'options = ["-I."]\nparams', 1)
    path.write_text(text.replace('#include "amount.cuh"', include))
    build_project(toy, compiling=False)
    site = install(toy, tmp_path / "site")
    code = "from toy_kernels import shifts; import numpy as np; x = np.float32([0])\n"
    code += "shifts.shift((1,), (1,), x, 1); print(x, 'pydantic' in __import__('sys').modules)"
    assert printed(code, site) == "[3.] False\n"
    (toy / "amount.cuh").write_text("#define AMOUNT 4\n")
    assert printed(code, site) == "[4.] True\n"


def test_a_header_that_comes_later_counts(toy: Path, tmp_path: Path) -> None:
    path = toy / "specs/shifts.toml"
    text = path.read_text().replace("params", 'options = ["-Imore"]\nparams', 1)
    more = '#if __has_include("more.cuh")\n#include "more.cuh"\n#endif\nextern'
    path.write_text(text.replace("extern", more))
    build_project(toy, compiling=False)
    site = install(toy, tmp_path / "site")
    code = "from toy_kernels import shifts; import numpy as np; x = np.float32([0])\n"
    code += "shifts.shift((1,), (1,), x, 1); print(x)"
    assert printed(code, site) == "[3.]\n"
    (toy / "more").mkdir()
    (toy / "more/more.cuh").write_text("#undef AMOUNT\n#define AMOUNT 5\n")
    assert printed(code, site) == "[5.]\n"


@pytest.mark.slow
def test_a_damaged_stamp_is_as_none(toy: Path, site: Path) -> None:
    path = toy / "generated/toy_kernels" / watch.STAMP
    before = path.read_text()
    for text in ("", "[]", "{}", '{"specs": 3}', before.replace("digest", "digset")):
        path.write_text(text)
        assert printed(USE, site) == "[9.]\n" and path.read_text() == before
    path.unlink()
    assert printed(USE, site) == "[9.]\n" and path.read_text() == before


def test_what_changes_during_a_build_is_looked_at_again(toy: Path, site: Path) -> None:
    plan = make_plan(load_settings(toy))
    stamp.write_stamp(plan, time.time() - 3600)
    code = f"{USE}\nimport sys\nprint('pydantic' in sys.modules)"
    assert printed(code, site) == "[9.]\nTrue\n"
    assert printed(code, site) == "[9.]\nFalse\n"


def test_builds_keep_what_is_watched_and_watch_nothing_else(toy: Path) -> None:
    path = toy / "generated/toy_kernels" / watch.STAMP
    build_project(toy, compiling=False)
    assert not path.exists()
    stamp.write_stamp(make_plan(load_settings(toy)), time.time())
    before = path.read_text()
    edit(toy)
    build_project(toy, compiling=False)
    assert path.read_text() != before


def test_a_package_in_a_package(toy: Path, tmp_path: Path) -> None:
    (toy / "src/toy").mkdir(parents=True)
    (toy / "src/toy/__init__.py").write_text("")
    path = toy / "pyproject.toml"
    path.write_text(path.read_text() + 'package = "src/toy/_kernels"\n')
    build_project(toy, compiling=False)
    site = install(toy, tmp_path / "site")
    edit(toy)
    assert printed(USE.replace("toy_kernels", "toy._kernels"), site) == "[10.]\n"


def test_a_project_that_is_gone_is_none_of_ours(toy: Path, site: Path) -> None:
    toy.rename(toy.parent / "moved")
    done = python(USE, site)
    assert "ModuleNotFoundError: No module named 'toy_kernels'" in done.stderr


def test_a_name_that_ascii_does_not_have(tmp_path: Path) -> None:
    toy = write_project(tmp_path / "spiel’zeug")
    build_project(toy, compiling=False)
    site = install(toy, tmp_path / "site")
    edit(toy)
    done = python(USE, site)
    assert done.stdout == "[10.]\n", done.stderr


@pytest.mark.slow
def test_many_imports_at_once_build_once(toy: Path, site: Path) -> None:
    edit(toy)
    code = "import kspec.build.project as p; real = p.build_project\n"
    code += "def build(*a, **k): print('built'); return real(*a, **k)\n"
    code += f"p.build_project = build\n{USE}"
    code = f"import site; site.addsitedir({str(site)!r})\n{code}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment(ROOT),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    outputs = [process.communicate() for process in processes]
    assert [out.splitlines()[-1] for out, _ in outputs] == ["[10.]"] * 4, outputs
    assert sum("built" in out for out, _ in outputs) == 1
    assert not list((toy / "generated").glob(".*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_package_that_can_not_be_written(toy: Path, site: Path) -> None:
    folder = toy / "generated"
    (folder / "toy_kernels" / watch.STAMP).unlink()
    for path in (folder / "toy_kernels/__pycache__", folder / "toy_kernels", folder):
        path.chmod(0o555)
    assert printed(USE, site) == "[9.]\n"
    edit(toy)
    assert "kspec.errors.FileError: " in python(USE, site).stderr
    folder.chmod(0o755)


def test_a_lock_leaves_no_file_and_lets_in_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    inside: list[int] = []
    seen: list[int] = []

    def enter() -> None:
        for _ in range(20):
            with atomic_replace.locked(path):
                inside.append(1)
                seen.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 80 and not path.exists()
