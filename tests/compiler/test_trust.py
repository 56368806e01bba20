"""Only files that the user or root wrote are executed, and no link or pipe in a folder harms."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kspec
from kspec.compiler.cache import ImageCache, folder, trust
from kspec.compiler.cache.counters import CacheStatistics, add_counts, read_counts
from kspec.errors import LoadError
from kspec.host import shared_objects
from kspec.model.stages import Image
from tests.projects import ROOT, environment

KEY = "ab" * 32
IMAGE = Image("so", "host", b"\x7fELF and so on", {"k": "k"})


def foreign(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a path one of another user's."""
    if os.geteuid() == 0:
        try:
            os.chown(path, 4321, -1)
        except OSError:
            pytest.skip("this container has one user only")
    else:
        user = os.geteuid() + 1
        monkeypatch.setattr(trust.os, "geteuid", lambda: user)


def public(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def sticky(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o1777)


def shared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a group write that others are in."""
    path.chmod(path.stat().st_mode | 0o020)
    monkeypatch.setattr(trust, "_is_private", lambda group, owner: False)


Harm = Callable[[Path, pytest.MonkeyPatch], None]
HARMS: dict[Harm, str] = {
    foreign: r"it belongs to user \d+, and this is user \d+; chown it",
    public: r"everyone can write it; chmod o-w it",
    shared: r"group \d+ can write it; chmod g-w it",
}


@pytest.mark.parametrize("harm", HARMS)
def test_entries_of_others_are_not_used(
    harm: Harm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ImageCache(tmp_path).put(KEY, IMAGE)
    cache = ImageCache(tmp_path)
    harm(cache.path(KEY), monkeypatch)
    if harm is foreign and os.geteuid():
        pytest.skip("an entry of another user needs root")
    message = (
        rf"{KEY}\.image of its cache, .* that this process runs: {HARMS[harm]}, or name another"
    )
    with pytest.warns(RuntimeWarning, match=message) as caught:
        assert cache.get(KEY) is None
        assert ImageCache(tmp_path).get(KEY) is None
    assert len(caught) == 1
    monkeypatch.undo()
    cache.put(KEY, IMAGE)
    assert ImageCache(tmp_path).get(KEY) == IMAGE, "it is replaced"


@pytest.mark.parametrize("harm", [*HARMS, sticky])
@pytest.mark.parametrize("place", ["folder", "layer"])
def test_folders_of_others_are_not_used(
    place: str, harm: Harm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ImageCache(tmp_path / place).put(KEY, IMAGE)
    cache = ImageCache(tmp_path / "folder", [tmp_path / "layer"])
    harm(tmp_path / place, monkeypatch)
    variable = "KSPEC_CACHE_DIR" if place == "folder" else "KSPEC_CACHE_LAYERS"
    reason = HARMS.get(harm, HARMS[public])
    message = rf"does not use {tmp_path / place} of its cache, .*: {reason}, or .* by {variable}"
    before = sorted((tmp_path / place).iterdir())
    with pytest.warns(RuntimeWarning, match=message) as caught:
        assert cache.get(KEY) is None
        with cache.alone(KEY):
            cache.put(KEY, IMAGE)
        add_counts(tmp_path / place, CacheStatistics(misses=1))
        assert cache.get(KEY) == IMAGE, "in memory"
    assert len(caught) == 1
    assert sorted((tmp_path / place).iterdir()) == before


def test_the_users_and_roots_are_used(tmp_path: Path) -> None:
    ImageCache(tmp_path).put(KEY, IMAGE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in (0o700, 0o755, 0o500):
            tmp_path.chmod(mode)
            assert ImageCache(tmp_path).get(KEY) == IMAGE
    assert trust.distrusted(Path("/usr").stat()) == ""


def test_a_private_group_is_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    class User:
        pw_name, pw_gid = "ada", 500

    class Group:
        gr_name, gr_mem = "ada", ["ada"]

    monkeypatch.setattr(trust.pwd, "getpwuid", lambda user: User)
    monkeypatch.setattr(trust.grp, "getgrgid", lambda group: Group)
    assert trust._is_private(500, 500)
    assert not trust._is_private(501, 500)
    Group.gr_mem = ["ada", "bob"]
    assert not trust._is_private(500, 500)
    Group.gr_mem, Group.gr_name = [], "staff"
    assert not trust._is_private(500, 500)


def test_a_group_without_a_name_is_not_private() -> None:
    assert not trust._is_private(2**31 - 5, 2**31 - 5)


class TestLinksAndPipes:
    """What is in the place of a file of the cache."""

    @pytest.fixture
    def victim(self, tmp_path: Path) -> Path:
        path = tmp_path / "victim"
        path.write_text("precious")
        return path

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        path = tmp_path / "cache"
        path.mkdir(mode=0o700)
        return path

    def test_an_entry(self, place: Path, tmp_path: Path) -> None:
        other = ImageCache(tmp_path / "other")
        other.put(KEY, IMAGE)
        cache = ImageCache(place)
        cache.path(KEY).symlink_to(other.path(KEY))
        assert cache.get(KEY) is None
        cache.put(KEY, Image("so", "host", b"mine", {}))
        assert not cache.path(KEY).is_symlink()
        assert ImageCache(other.directory).get(KEY) == IMAGE

    def test_a_lock(self, place: Path, victim: Path) -> None:
        (place / f"{KEY}.lock").symlink_to(victim)
        with folder.alone(place, KEY, 0.2):
            pass
        assert victim.read_text() == "precious"

    def test_counters(self, place: Path, victim: Path) -> None:
        (place / "counters").symlink_to(victim)
        add_counts(place, CacheStatistics(misses=3))
        assert victim.read_text() == "precious"
        victim.write_text("1 1 1 1 1\n")
        assert read_counts(place) == CacheStatistics()

    def test_pipes_do_not_hang(self, place: Path) -> None:
        code = """
import os, sys
from pathlib import Path
from kspec.compiler.cache import folder
from kspec.compiler.cache import ImageCache
from kspec.compiler.cache.counters import CacheStatistics, add_counts, read_counts
place, key = Path(sys.argv[1]), "ab" * 32
for name in (f"{key}.image", f"{key}.lock", "counters"):
    os.mkfifo(place / name)
assert ImageCache(place).get(key) is None
with folder.alone(place, key, 0.2):
    pass
add_counts(place, CacheStatistics(misses=3))
assert read_counts(place) == CacheStatistics()
print("passed")
"""
        command = [sys.executable, "-c", code, str(place)]
        done = subprocess.run(
            command, env=environment(ROOT), capture_output=True, text=True, timeout=300
        )
        assert done.stdout == "passed\n", done.stderr


class TestLoading:
    """Shared objects are written for the loader where no one else can exchange them."""

    @pytest.fixture
    def image(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> bytes:
        """A shared object, and an empty cache."""
        monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
        built = tmp_path / "one.so"
        (tmp_path / "one.c").write_text("int one() { return 1; }")
        compiler = kspec_compiler()
        command = [
            *compiler,
            "-shared",
            "-fPIC",
            "-x",
            "c",
            "-o",
            str(built),
            str(tmp_path / "one.c"),
        ]
        subprocess.run(command, check=True)
        return built.read_bytes()

    def places(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Record the paths that are loaded."""
        paths: list[str] = []
        real = ctypes.CDLL
        monkeypatch.setattr(
            shared_objects.ctypes, "CDLL", lambda path: paths.append(path) or real(path)
        )
        return paths

    def test_beside_the_entries(
        self, image: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        paths = self.places(monkeypatch)
        assert shared_objects.load_library(image, "one").one() == 1
        assert Path(paths[0]).parent == tmp_path / "cache/host"
        assert not [*(tmp_path / "cache/host").iterdir()]

    @pytest.mark.parametrize("which", ["cache", "cache/host"])
    def test_not_where_others_write(
        self, which: str, image: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "cache/host").mkdir(parents=True)
        (tmp_path / which).chmod(0o777)
        paths = self.places(monkeypatch)
        assert shared_objects.load_library(image, "one").one() == 1
        assert [Path(path).parent for path in paths] == [Path(tempfile.gettempdir())]

    def test_not_through_a_link(
        self, image: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "cache").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "cache/host").symlink_to(tmp_path / "elsewhere")
        paths = self.places(monkeypatch)
        assert shared_objects.load_library(image, "one").one() == 1
        assert [Path(path).parent for path in paths] == [Path(tempfile.gettempdir())]

    @pytest.mark.parametrize("count", [1, 2])
    def test_where_files_are_not_executed(
        self, count: int, image: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As on file systems that are mounted with noexec, one or both of them."""
        real, refused = ctypes.CDLL, []

        def load(path: str) -> ctypes.CDLL:
            if len(refused) < count:
                refused.append(path)
                raise OSError(f"{path}: failed to map segment from shared object")
            return real(path)

        monkeypatch.setattr(shared_objects.ctypes, "CDLL", load)
        assert shared_objects.load_library(image, "one").one() == 1
        assert len(refused) == count and not any(Path(path).exists() for path in refused)

    def test_on_a_disk_without_programs(
        self, image: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = tmp_path / "disk"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "noexec,mode=700", "tmpfs", str(place)]
        if os.geteuid() or not shutil.which("mount") or subprocess.run(mount).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            monkeypatch.setenv("KSPEC_CACHE_DIR", str(place))
            monkeypatch.setattr(tempfile, "tempdir", str(place))
            paths = self.places(monkeypatch)
            assert shared_objects.load_library(image, "one").one() == 1
            assert [path.startswith(str(place)) for path in paths] == [True, True, False]
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)

    def test_libraries_in_memory_are_told_apart(
        self, image: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded = [shared_objects._loaded_from_memory(image, "one") for _ in range(3)]
        assert len({one._handle for one in loaded}) == 3

    def test_what_is_no_library(self, image: bytes) -> None:
        with pytest.raises(LoadError, match=r"cannot be loaded: .*; KSPEC_CACHE_DIR and TMPDIR"):
            shared_objects.load_library(b"no library", "one")

    def test_a_kernel_runs_all_the_same(
        self, image: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A shared folder costs a warning, and compiling in each process."""
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache").chmod(0o1777)
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + 41", "of_shared_folder")
        with pytest.warns(RuntimeWarning, match="everyone can write it") as caught:
            np.testing.assert_array_equal(kernel(np.ones(2, np.int16)), [42, 42])
        assert len(caught) == 1
        assert [path.name for path in (tmp_path / "cache").iterdir()] == []


def kspec_compiler() -> tuple[str, ...]:
    from kspec.compiler.host import find_compiler

    compiler = find_compiler()
    return compiler.as_c if compiler.kind == "zig" else compiler.command


def test_a_folder_in_the_place_of_an_entry_leaves_no_file_open(tmp_path: Path) -> None:
    folder.entry_path(tmp_path, KEY).mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    cache = ImageCache(tmp_path)
    assert [cache.get(KEY) for _ in range(10)] == [None] * 10
    assert len(list(Path("/proc/self/fd").iterdir())) == before
