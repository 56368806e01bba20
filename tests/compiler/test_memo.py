"""Notes of what was decided last time: what they depend on, and that none is stale."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler import compilation, memo
from kspec.compiler import cuda as toolkit
from kspec.compiler import host as command
from kspec.compiler.cache import ImageCache
from kspec.compiler.cache.folder import NOTE_SUFFIX
from kspec.locks import OnceMap
from kspec.model.stages import FLAT, CudaSource, Image, Specialization, Target
from kspec.pipeline import FieldsSource, LazySource, declare
from kspec.runtime import driver
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.modules import provider as providers
from kspec.runtime.modules.provider import CompilingProvider, OneSource
from tests import own_cache
from tests.projects import ROOT, environment

GPU = Device("cuda", 0)
WANTED = Specialization("noted", (("T", "float32"),), FLAT)
FIELDS: dict[str, Any] = {
    "name": "noted",
    "inputs": "T x",
    "outputs": "T y",
    "operation": "y = x",
    "preamble": "",
    "options": (),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test an empty cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(folder))
    monkeypatch.setenv("KSPEC_JIT", "auto")
    return folder


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record renderings, and what is compiled: quickly, to an image of the headers' texts."""
    said: list[str] = []
    render = LazySource.__call__

    def rendered(self: LazySource, wanted: Any) -> CudaSource:
        said.append("render")
        return render(self, wanted)

    def compiled(source: CudaSource, target: Target, *rest: Any) -> Image:
        said.append("compile")
        own = [one.text for one in source.headers if "mine" in one.name]
        code = repr((own, source.options)).encode()
        return Image(target.format, target.arch, code, {WANTED.name_expression: "k"})

    monkeypatch.setattr(LazySource, "__call__", rendered)
    monkeypatch.setattr(compilation, "_compile", compiled)
    monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))
    return said


@pytest.fixture
def find(long_ways: list[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Image | None]:
    """Return a function that finds the image of a kernel as a new process does."""

    def find(device: Device = HOST, **fields: Any) -> Image | None:
        long_ways.clear()
        monkeypatch.setattr(providers, "_CACHES", OnceMap())
        source = FieldsSource("elementwise", {**FIELDS, **fields})
        return CompilingProvider(source).find(WANTED, device)

    return find


# What differs, and fields that differ in nothing else.
OTHERS: dict[str, dict[str, Any]] = {
    "input": {"inputs": "T z"},
    "operation": {"operation": "y = x + 1"},
    "preamble": {"preamble": "// nothing"},
    "options": {"options": ("-DA",)},
    "a list of options": {"options": []},
    "flag": {"reduce_dims": False},
    "number instead of a flag": {"reduce_dims": 0},
    "float instead of an integer": {"reduce_dims": 0.0},
    "text instead of a number": {"reduce_dims": "0"},
    "window": {"windows": {"x": {"reach": [1], "boundary": "wrap"}}},
    "wider window": {"windows": {"x": {"reach": [2], "boundary": "wrap"}}},
    "size": {"sizes": {"R": [1]}},
}


def test_each_field_is_in_the_recipe() -> None:
    recipes = [FieldsSource("elementwise", {**FIELDS, **one}).recipe for one in OTHERS.values()]
    recipes += [FieldsSource(kind, FIELDS).recipe for kind in ("elementwise", "reduction")]
    assert len({*recipes}) == len(recipes)
    assert FieldsSource("elementwise", dict(reversed(FIELDS.items()))).recipe in recipes


def test_a_recipe_does_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a kernel is unpickled, kspec may be another."""
    source = FieldsSource("elementwise", FIELDS)
    recipe, copy = source.recipe, pickle.loads(pickle.dumps(source))
    assert copy.recipe == recipe
    monkeypatch.setattr(memo, "__version__", "0.0.1")
    assert copy.recipe != recipe


@pytest.mark.parametrize("value", [np.float32(1), Path("x"), {1}, [np.bool_(True)], object()])
def test_values_of_other_types_take_the_long_way(value: object) -> None:
    with pytest.raises(TypeError, match="not a plain value"):
        memo.plain_copy(value)


def test_what_is_given_can_be_changed() -> None:
    windows: dict[str, Any] = {"x": {"reach": [1], "boundary": "wrap"}}
    source = declare("elementwise", {**FIELDS, "operation": "y = x(1)", "windows": windows}, {})[1]
    windows["x"]["reach"][0] = 2
    assert "2" not in repr(source._fields["windows"])  # type: ignore[union-attr]


def _notes(cache: Path) -> Iterator[Any]:
    """Yield the contents of all notes of a cache."""
    for path in cache.glob(f"*{NOTE_SUFFIX}"):
        found = ImageCache(cache).recall(path.stem)
        assert found is not None
        yield json.loads(found)


class TestCode:
    @pytest.fixture
    def root(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        for name in (*memo.DECIDING, "templates"):
            (tmp_path / "kspec" / name / "deep").mkdir(parents=True)
            for path in ("a.py", "deep/b.py"):
                (tmp_path / "kspec" / name / path).write_text("x = 1\n")
                os.utime(tmp_path / "kspec" / name / path, (10**9, 10**9))
        for name in ("limits.py", "pipeline.py"):
            (tmp_path / "kspec" / name).write_text("")
            os.utime(tmp_path / "kspec" / name, (10**9, 10**9))
        monkeypatch.setattr(memo, "ROOT", tmp_path / "kspec")
        memo.code_digest.cache_clear()
        yield tmp_path / "kspec"
        memo.code_digest.cache_clear()

    @pytest.mark.parametrize("place", [*memo.DECIDING, "templates"])
    def test_sizes_and_times_of_its_files_count(self, root: Path, place: str) -> None:
        before = memo.code_digest()
        file = root / place / "deep" / "b.py"
        digests = {before}
        for time, text in ((10**9 + 1, "x = 1\n"), (10**9, "x = 10\n")):
            file.write_text(text)
            os.utime(file, (time, time))
            memo.code_digest.cache_clear()
            digests.add(memo.code_digest())
        assert before and len(digests) == 3

    def test_files_that_are_newer_than_the_process(self, root: Path) -> None:
        """It has imported the old ones, or some of them."""
        (root / "model" / "a.py").touch()
        time = kspec.__loaded__ + 1
        os.utime(root / "model" / "a.py", (time, time))
        assert memo.code_digest() == ""
        assert FieldsSource("elementwise", FIELDS).recipe == ""

    def test_an_archive(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memo, "ROOT", tmp_path / "none.zip" / "kspec")
        memo.code_digest.cache_clear()
        assert memo.code_digest() == ""
        memo.code_digest.cache_clear()

    def test_all_that_the_long_way_imports_is_looked_at(self) -> None:
        """But for the base that the short way has imported, too, and what runs compilers."""
        code = """
import sys, kspec
from kspec.pipeline import FieldsSource
kspec.ElementwiseKernel
before = set(sys.modules)
from kspec.compiler import compile_source
from kspec.render import render_specs
from kspec.spec.building import build_spec
print(*(set(sys.modules) - before))
"""
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(ROOT),
            capture_output=True,
            text=True,
            check=True,
        )
        own = {name.split(".")[1] for name in done.stdout.split() if name.startswith("kspec.")}
        assert {*memo.DECIDING} >= own - {"diagnostics", "limits", "pipeline", "toml"}


DECLARED: dict[str, tuple[type, tuple[Any, ...], dict[str, Any]]] = {
    "elementwise": (kspec.ElementwiseKernel, ("T x, raw T y", "T z", "z = x + y[i]", "f"), {}),
    "options": (
        kspec.ElementwiseKernel,
        ("T x", "T z", "z = x", "f"),
        {"options": ("-DA",), "no_return": True, "preamble": "// T", "loop_prep": "int k = 0"},
    ),
    "window": (
        kspec.ElementwiseKernel,
        ("T u", "T v", "v = u(-R) + u(R)", "blur"),
        {"windows": {"u": {"reach": ["R"], "boundary": ["wrap"]}}, "sizes": {"R": [1, 2]}},
    ),
    "sample": (
        kspec.ElementwiseKernel,
        ("raw T x, T at", "T y", "y = x.sample(at)", "sampled"),
        {"samples": {"x": {"order": 1, "boundary": "nearest"}}},
    ),
    "reduction": (
        kspec.ReductionKernel,
        ("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm"),
        {},
    ),
    "no identity": (
        kspec.ReductionKernel,
        ("T x", "T y", "x", "max(a, b)", "y = a", None, "largest", "float"),
        {"strict_keys": True},
    ),
}


@pytest.mark.parametrize("name", DECLARED)
def test_a_noted_declaration_is_that_of_the_spec(
    name: str, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    kind, args, keywords = DECLARED[name]
    first = kind(*args, **keywords)
    assert len([*cache.glob(f"*{NOTE_SUFFIX}")]) == 1
    monkeypatch.setattr("kspec.pipeline.spec_of", None)
    second = kind(*args, **keywords)
    assert second.declaration == first.declaration
    assert repr(second) == repr(first)
    monkeypatch.undo()
    assert second.spec == first.spec
    assert pickle.loads(pickle.dumps(second)).spec == first.spec


def test_a_wrong_declaration_is_wrong_each_time() -> None:
    for _ in range(2):
        with pytest.raises(kspec.SpecError, match="must be a string"):
            kspec.ElementwiseKernel("T x", "T y", "", "f", options=("-DA", 1))  # type: ignore[arg-type]


def test_gradients_are_made_each_time() -> None:
    for _ in range(2):
        kernel = kspec.ElementwiseKernel(
            "T x", "T y", "y = x * x", "sq", backward={"x": "2 * x * grad_y"}
        )
        assert kernel.backward is not None


class TestImages:
    @pytest.mark.parametrize("device", [HOST, GPU])
    def test_the_second_process_goes_the_short_way(
        self, device: Device, find: Callable[..., Image], long_ways: list[str]
    ) -> None:
        first = find(device)
        assert long_ways == ["render", "compile"]
        assert find(device) == first
        assert not CompilingProvider(FieldsSource("elementwise", FIELDS)).compiles(WANTED, device)
        assert long_ways == []

    def test_sources_of_raw_kernels(
        self, long_ways: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = CudaSource("a.cu", "__global__ void noted() {}", ("noted",))
        first = CompilingProvider(OneSource(source)).find(WANTED, HOST)
        monkeypatch.setattr(providers, "_CACHES", OnceMap())
        monkeypatch.setattr(compilation, "compile_source", None)
        assert CompilingProvider(OneSource(source)).find(WANTED, HOST) == first

    def test_notes_list_the_headers_of_the_user(
        self, tmp_path: Path, find: Callable[..., Image], cache: Path
    ) -> None:
        """Those of kspec are part of the recipe; names that lead out of their folder are not."""
        (tmp_path / "mine.h").write_text("// 1\n")
        up = "../" * len((ROOT / "kspec/include").parts[1:])
        preamble = f'#include "mine.h"\n#include <{up}{tmp_path.relative_to("/")}/mine.h>'
        find(options=(f"-I{tmp_path}",), preamble=preamble)
        (note,) = (one for one in _notes(cache) if "headers" in one)
        listed = {os.path.normpath(path) for path in note["headers"]}
        assert str(tmp_path / "mine.h") in listed
        assert f"{ROOT}/kspec/include/{up}{tmp_path.relative_to('/')}/mine.h" in note["headers"]
        assert not any(path.startswith(f"{ROOT}/kspec/include/") for path in listed)

    @pytest.mark.parametrize("damage", [b"", b"nothing", None])
    def test_a_damaged_note(
        self, damage: bytes | None, find: Callable[..., Image], long_ways: list[str], cache: Path
    ) -> None:
        first = find()
        for path in cache.glob(f"*{NOTE_SUFFIX}"):
            data = path.read_bytes()
            path.write_bytes(data[:-1] + b"?" if damage is None else damage)
        assert find() == first
        assert long_ways == ["render"]
        find()
        assert long_ways == []

    @pytest.mark.parametrize("text", [b"", b"[]", b'{"image": 1}', b'{"image": "x", "headers": 3}'])
    def test_a_note_of_another_form(self, text: bytes, cache: Path) -> None:
        images = ImageCache(cache)
        images.remember("ab" * 32, text)
        assert memo.recalled_image(images, "ab" * 32) is None

    def test_an_image_that_is_gone(
        self, find: Callable[..., Image], long_ways: list[str], cache: Path
    ) -> None:
        first = find()
        for path in cache.glob("*.image"):
            path.unlink()
        assert find() == first
        assert long_ways == ["render", "compile"]

    def test_a_cache_that_cannot_be_written(
        self,
        tmp_path: Path,
        find: Callable[..., Image],
        long_ways: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "file"))
        with pytest.warns(RuntimeWarning, match="cannot write its cache"):
            find()
        find()
        assert long_ways == ["render", "compile"]

    def test_jit_modes(
        self, find: Callable[..., Image], long_ways: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = find()
        monkeypatch.setenv("KSPEC_JIT", "never")
        assert find() is None
        monkeypatch.setenv("KSPEC_JIT", "always")
        assert find() == first
        assert long_ways == []


class TestStaleness:
    """Each change makes the next process go the long way, and find what is right now."""

    @pytest.fixture
    def folders(self, tmp_path: Path) -> dict[str, Any]:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
        (tmp_path / "second" / "mine.h").write_text("// 1\n")
        options = (f"-I{tmp_path}/first", f"-I{tmp_path}/second")
        return {"options": options, "preamble": '#include "mine.h"'}

    def _check(
        self,
        find: Callable[..., Image],
        long_ways: list[str],
        change: Callable[[], object],
        fields: dict[str, Any],
        device: Device = HOST,
    ) -> tuple[Image, Image]:
        before = find(device, **fields)
        assert find(device, **fields) == before and long_ways == []
        change()
        after = find(device, **fields)
        assert long_ways[:1] == ["render"]
        return before, after

    @pytest.mark.parametrize("device", [HOST, GPU])
    @pytest.mark.parametrize("text", ["// 2\n", "// longer\n", '#include "mine2.h"\n'])
    def test_a_changed_header(
        self,
        device: Device,
        text: str,
        tmp_path: Path,
        folders: dict[str, Any],
        find: Callable[..., Image],
        long_ways: list[str],
    ) -> None:
        header = tmp_path / "second" / "mine.h"
        status = header.stat()

        def change() -> None:
            header.write_text(text)
            os.utime(header, ns=(status.st_atime_ns, status.st_mtime_ns))

        before, after = self._check(find, long_ways, change, folders, device)
        assert after != before

    @pytest.mark.parametrize("device", [HOST, GPU])
    def test_a_header_that_shadows_another(
        self,
        device: Device,
        tmp_path: Path,
        folders: dict[str, Any],
        find: Callable[..., Image],
        long_ways: list[str],
    ) -> None:
        def change() -> None:
            (tmp_path / "first" / "mine.h").write_text("// first\n")

        before, after = self._check(find, long_ways, change, folders, device)
        assert after != before and b"first" in after.code

    def test_a_header_beside_the_one_that_includes_it(
        self,
        tmp_path: Path,
        folders: dict[str, Any],
        find: Callable[..., Image],
        long_ways: list[str],
    ) -> None:
        (tmp_path / "second" / "sub").mkdir()
        (tmp_path / "second" / "sub" / "mine.h").write_text('#include "mine2.h"\n')
        (tmp_path / "second" / "mine2.h").write_text("// far\n")
        fields = {**folders, "preamble": '#include "sub/mine.h"'}

        def change() -> None:
            (tmp_path / "second" / "sub" / "mine2.h").write_text("// beside\n")

        _, after = self._check(find, long_ways, change, fields)
        assert b"beside" in after.code

    def test_a_header_that_is_removed(
        self,
        tmp_path: Path,
        folders: dict[str, Any],
        find: Callable[..., Image],
        long_ways: list[str],
    ) -> None:
        self._check(find, long_ways, (tmp_path / "second" / "mine.h").unlink, folders)

    def test_another_folder(
        self,
        tmp_path: Path,
        find: Callable[..., Image],
        long_ways: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """An option's folder may count from the current one."""
        for name in ("here", "there"):
            (tmp_path / name / "include").mkdir(parents=True)
            (tmp_path / name / "include" / "mine.h").write_text(f"// {name}\n")
        monkeypatch.chdir(tmp_path / "here")
        fields = {"options": ("-Iinclude",), "preamble": '#include "mine.h"'}
        _, after = self._check(
            find, long_ways, lambda: monkeypatch.chdir(tmp_path / "there"), fields
        )
        assert b"there" in after.code

    @pytest.mark.parametrize("name", ["KSPEC_HOST_OPT", "CPATH"])
    def test_the_environment(
        self,
        name: str,
        tmp_path: Path,
        find: Callable[..., Image],
        long_ways: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        value = {"KSPEC_HOST_OPT": "2", "CPATH": str(tmp_path)}[name]
        self._check(find, long_ways, lambda: monkeypatch.setenv(name, value), {})

    def test_another_compiler_of_the_host_device(
        self, find: Callable[..., Image], long_ways: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = command.HostCompiler(command.find_compiler().command, "gcc", "gcc 99", "new")
        change = lambda: monkeypatch.setattr(command, "find_compiler", lambda: other)  # noqa: E731
        self._check(find, long_ways, change, {})

    def test_another_nvrtc(
        self,
        tmp_path: Path,
        find: Callable[..., Image],
        long_ways: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        library = tmp_path / "libnvrtc.so.13"
        library.write_bytes(b"13.0")
        monkeypatch.setattr(toolkit, "library_file", lambda name: library)
        self._check(find, long_ways, lambda: library.write_bytes(b"13.0.1"), {}, GPU)

    def test_an_nvrtc_that_is_not_in_a_wheel(
        self, find: Callable[..., Image], long_ways: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(toolkit, "library_file", lambda name: None)
        for _ in range(2):
            find(GPU)
            assert long_ways[0] == "render"

    def test_another_gpu(
        self, find: Callable[..., Image], long_ways: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def change() -> None:
            monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (8, 0))

        before, after = self._check(find, long_ways, change, {}, GPU)
        assert (before.arch, after.arch) == ("sm_90", "sm_80")

    def test_another_version_of_kspec(
        self, find: Callable[..., Image], long_ways: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._check(find, long_ways, lambda: monkeypatch.setattr(memo, "__version__", "9"), {})

    def test_other_code_of_kspec(
        self, find: Callable[..., Image], long_ways: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change = lambda: monkeypatch.setattr(memo, "code_digest", lambda: "other")  # noqa: E731
        self._check(find, long_ways, change, {})

    def test_other_headers_of_the_toolkit(
        self,
        tmp_path: Path,
        find: Callable[..., Image],
        long_ways: list[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        header = tmp_path / "cuda_runtime.h"
        header.write_text("// 13.0\n")
        monkeypatch.setattr(toolkit, "headers_in_wheels", lambda: (header, header, header))
        fields = {"preamble": "#include <cuda_fp16.h>"}
        self._check(find, long_ways, lambda: header.write_text("// 13.0.1\n"), fields, GPU)

    def test_a_toolkit_of_the_user(
        self, tmp_path: Path, find: Callable[..., Image], long_ways: list[str]
    ) -> None:
        """Its headers are not read, so that it is asked for its version each time."""
        (tmp_path / "cuda_runtime_api.h").write_text("#define CUDART_VERSION 13000\n")
        for _ in range(2):
            find(options=(f"-I{tmp_path}",))
            assert long_ways[0] == "render"


SUM = """
import numpy as np, kspec
kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + {n}", "noted_{n}", options=("-DN={n}",))
assert kernel(np.ones(3, np.int16)).tolist() == [{n} + 1] * 3
"""


def test_processes_share_notes_at_the_same_time(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_CACHE_LAYERS", str(own_cache.FOLDER))  # with the host's runtime
    code = "".join(SUM.format(n=n) for n in (1, 2))
    command = [sys.executable, "-W", "error", "-c", code]
    for _ in range(2):
        both = [subprocess.Popen(command, env=environment(ROOT)) for _ in range(2)]
        assert [one.wait() for one in both] == [0, 0]
    assert len([*cache.glob(f"*{NOTE_SUFFIX}")]) == 4
