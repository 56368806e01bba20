"""The cache: what it keeps, and that nothing on the disk can hurt it."""

from __future__ import annotations

import errno
import os
import pickle
import random
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.compiler import cache as cache_module
from kspec.compiler.cache import ImageCache, folder
from kspec.compiler.cache.counters import CacheStatistics, add_counts, read_counts
from kspec.compiler.cache.entry import MAGIC, SCHEMA, pack_image, unpack_image
from kspec.compiler.cache.folder import entries, sweep
from kspec.errors import CompileError, LoadError
from kspec.model.stages import Figures, Image
from tests import own_cache
from tests.projects import ROOT, environment, run_python

KEY = "ab" * 32
IMAGE = Image(
    "cubin",
    "sm_90",
    b"\x7fELF" + bytes(range(256)) * 4,
    {"k<float>": "_Z1kIfEvPT_", "ü": "u"},
    {"k<float>": Figures(12, 512, 0, 376, 0)},
    "a warning\nwith ümlaut",
)
OTHER = Image("ptx", "compute_80", b"//\n\0", {})

figures = st.builds(Figures, *[st.integers(-1, 10**6)] * 5)
images = st.builds(
    Image,
    st.sampled_from(["cubin", "ptx", "fatbin", "so"]),
    st.text(),
    st.binary(),
    st.dictionaries(st.text(), st.text(), max_size=3),
    st.dictionaries(st.text(), figures, max_size=3),
    st.text(),
)


@given(images)
def test_unpack_undoes_pack(image: Image) -> None:
    packed = pack_image(KEY, image)
    assert unpack_image(packed, KEY) == image
    assert pack_image(KEY, unpack_image(packed, KEY)) == packed
    with pytest.raises(LoadError, match="another key"):
        unpack_image(packed, "cd" * 32)


@given(st.binary(max_size=200))
def test_unpack_of_anything_is_a_load_error(data: bytes) -> None:
    with pytest.raises(LoadError):
        unpack_image(data, KEY)


PACKED = pack_image(KEY, IMAGE)
DAMAGED = {
    "empty": b"",
    "short": PACKED[:20],
    "prefix only": PACKED[:48],
    "truncated": PACKED[:-1],
    "longer": PACKED + b"\0",
    "foreign": b"\x7fELF" + PACKED[4:],
    "future": PACKED[:8] + struct.pack("<I", SCHEMA + 1) + PACKED[12:],
    "header length": PACKED[:44] + b"\xff\xff\xff\xff" + PACKED[48:],
    "zeros": bytes(len(PACKED)),
    "text": b"KSPECIMG but not really" * 10,
    "another key's": pack_image("cd" * 32, IMAGE),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_entry_is_a_miss_and_is_replaced(case: str, tmp_path: Path) -> None:
    ImageCache(tmp_path).put(KEY, IMAGE)
    cache = ImageCache(tmp_path)
    cache.path(KEY).write_bytes(DAMAGED[case])
    assert cache.get(KEY) is None
    cache.put(KEY, IMAGE)
    assert ImageCache(tmp_path).get(KEY) == IMAGE


@given(st.integers(0, 8 * len(PACKED) - 1))
def test_any_flipped_bit_is_noticed(position: int) -> None:
    data = bytearray(PACKED)
    data[position // 8] ^= 1 << position % 8
    with pytest.raises(LoadError):
        unpack_image(bytes(data), KEY)


def test_messages_say_what_is_wrong() -> None:
    for case, message in [
        ("empty", "too short"),
        ("foreign", "magic"),
        ("future", f"schema {SCHEMA + 1}"),
        ("truncated", "checksum"),
    ]:
        with pytest.raises(LoadError, match=message):
            unpack_image(DAMAGED[case], KEY)
    assert PACKED.startswith(MAGIC)


def test_memory_then_disk(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path / "made" / "when needed")
    assert cache.get(KEY) is None
    cache.put(KEY, IMAGE)
    assert cache.get(KEY) is IMAGE
    assert cache.get(KEY[::-1]) is None
    assert cache.statistics == CacheStatistics(memory_hits=1, disk_hits=0, misses=2)
    again = ImageCache(cache.directory)
    assert again.get(KEY) == IMAGE
    assert again.get(KEY) is again.get(KEY)
    assert again.statistics == CacheStatistics(memory_hits=2, disk_hits=1, misses=0)
    assert again.statistics.hits == 3


def test_one_private_file_per_entry_and_no_leftovers(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path / "cache")
    cache.put(KEY, OTHER)
    cache.put(KEY, IMAGE)
    assert [path.name for path in cache.directory.iterdir()] == [f"{KEY}.image"]
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.path(KEY).stat().st_mode) == 0o600


def test_a_directory_in_the_way_of_the_entry(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    cache.path(KEY).mkdir()
    with pytest.warns(RuntimeWarning, match="cannot write its cache"):
        cache.put(KEY, IMAGE)
    assert cache.get(KEY) == IMAGE
    assert [path.name for path in tmp_path.iterdir()] == [f"{KEY}.image"]


def test_unwritable_directory_warns_once_and_works(tmp_path: Path) -> None:
    # A file where the directory should be: unwritable for root, too.
    place = tmp_path / "file"
    place.write_text("")
    cache = ImageCache(place / "cache")
    with pytest.warns(RuntimeWarning, match="KSPEC_CACHE_DIR") as caught:
        cache.put(KEY, IMAGE)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("cd" * 32, OTHER)
    assert cache.get(KEY) == IMAGE
    assert cache.get("cd" * 32) == OTHER
    assert cache.get("ef" * 32) is None


def test_failed_rename_keeps_the_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "file in use")

    monkeypatch.setattr(Path, "replace", refuse)
    cache = ImageCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="file in use"):
        cache.put(KEY, IMAGE)
    assert cache.get(KEY) == IMAGE
    assert list(tmp_path.iterdir()) == []


def test_failures_are_remembered_but_not_shared(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    assert cache.failure(KEY) is None
    cache.put_failure(KEY, CompileError("log", "source", ("-a",), "sm_80"))
    first, second = cache.failure(KEY), cache.failure(KEY)
    assert first is not None and first is not second
    assert (first.log, first.source, first.options, first.target) == (
        "log",
        "source",
        ("-a",),
        "sm_80",
    )
    assert ImageCache(tmp_path).failure(KEY) is None


def test_pickled_cache_opens_the_same_directory(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    cache.put(KEY, IMAGE)
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.directory == tmp_path
    assert copy.get(KEY) == IMAGE


def hammer(cache: ImageCache, worker: int) -> int:
    """Put and get two keys; return how many answers were wrong."""
    wrong = 0
    for turn in range(50):
        key = f"{turn % 2:064x}"
        cache.put(key, IMAGE if turn % 2 else OTHER)
        fresh = ImageCache(cache.directory)
        wrong += fresh.get(key) != (IMAGE if turn % 2 else OTHER)
    return wrong


def test_eight_threads(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(hammer, [cache] * 8, range(8))) == [0] * 8
    assert len(list(tmp_path.glob("*.image"))) == 2
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(sys.platform == "win32", reason="replacing an open file fails there")
@pytest.mark.slow
def test_eight_processes(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    with ProcessPoolExecutor(8, get_context("spawn")) as pool:
        assert list(pool.map(hammer, [cache] * 8, range(8))) == [0] * 8
    assert len(list(tmp_path.glob("*.image"))) == 2
    assert not list(tmp_path.glob(".*"))


def filled(folder: Path, count: int, size: int, **options: object) -> ImageCache:
    """Return a cache with images of `size` bytes, each used a minute after the one before."""
    cache = ImageCache(folder, **options)
    for number in range(count):
        key = f"{number:064x}"
        cache.put(key, Image("ptx", "compute_80", bytes(size), {}))
        os.utime(cache.path(key), (0, 1e9 + 60 * number))
    return cache


def keys(folder: Path) -> list[int]:
    return [int(one.key, 16) for one in entries(folder)]


class TestLayers:
    def test_are_searched_first_and_never_written(self, tmp_path: Path) -> None:
        first, second, own = (tmp_path / name for name in ("first", "second", "own"))
        ImageCache(second).put(KEY, IMAGE)
        ImageCache(own).put(KEY, OTHER)
        before = {path: path.stat() for path in second.iterdir()}
        cache = ImageCache(own, (first, second))
        assert cache.get(KEY) == IMAGE
        cache.put("cd" * 32, OTHER)
        assert cache.get("ef" * 32) is None
        assert cache.statistics == CacheStatistics(layer_hits=1, misses=1)
        assert {path: path.stat() for path in second.iterdir()} == before
        assert not first.exists()
        assert keys(own) == sorted(int(key, 16) for key in (KEY, "cd" * 32))

    def test_a_damaged_layer_is_passed_over(self, tmp_path: Path) -> None:
        layer, own = tmp_path / "layer", tmp_path / "own"
        ImageCache(layer).put(KEY, IMAGE)
        ImageCache(layer).path(KEY).write_bytes(PACKED[:-1])
        cache = ImageCache(own, (layer,))
        assert cache.get(KEY) is None
        cache.put(KEY, OTHER)
        again = ImageCache(own, (layer,))
        assert again.get(KEY) == OTHER
        assert again.statistics == CacheStatistics(disk_hits=1, damaged=1)

    def test_come_from_the_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "own"))
        monkeypatch.setenv("KSPEC_CACHE_LAYERS", f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}")
        monkeypatch.setenv("KSPEC_CACHE_SIZE", "1M")
        cache = pickle.loads(pickle.dumps(ImageCache.configured()))
        assert cache.directory == tmp_path / "own"
        assert cache.layers == (tmp_path / "a", tmp_path / "b")
        assert cache.limit == 1 << 20


class TestLimit:
    def test_what_was_not_used_for_longest_goes(self, tmp_path: Path) -> None:
        filled(tmp_path, 10, 1000)
        size = entries(tmp_path)[0].size
        assert [int(one.key, 16) for one in sweep(tmp_path, 8 * size)] == [0, 1, 2]
        assert keys(tmp_path) == [3, 4, 5, 6, 7, 8, 9], "an eighth of the limit is spare"
        assert sweep(tmp_path, 8 * size) == ()

    def test_a_hit_is_a_use(self, tmp_path: Path) -> None:
        filled(tmp_path, 4, 1000)
        size = entries(tmp_path)[0].size
        assert ImageCache(tmp_path).get(f"{0:064x}") is not None
        sweep(tmp_path, 2 * size)
        assert keys(tmp_path) == [0]

    def test_uses_within_an_hour_are_one(self, tmp_path: Path) -> None:
        cache = ImageCache(tmp_path)
        cache.put(KEY, IMAGE)
        os.utime(cache.path(KEY), (0, time.time() - 1800))
        before = cache.path(KEY).stat().st_mtime
        assert ImageCache(tmp_path).get(KEY) == IMAGE
        assert cache.path(KEY).stat().st_mtime == before

    def test_writes_keep_it_small(self, tmp_path: Path) -> None:
        limit = 64 * 1024
        cache = ImageCache(tmp_path, limit=limit)
        most = 0
        for number in range(300):
            cache.put(f"{number:064x}", Image("ptx", "compute_80", bytes(2048), {}))
            most = max(most, sum(one.size for one in entries(tmp_path)))
        assert limit // 2 < most <= limit
        assert 299 in keys(tmp_path)

    def test_most_writes_do_not_sweep(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sweeps: list[Path] = []
        monkeypatch.setattr(folder, "sweep", lambda path, *rest: sweeps.append(path))
        cache = ImageCache(tmp_path, limit=1 << 30)
        for number in range(200):
            cache.put(f"{number:064x}", OTHER)
        assert len(sweeps) <= 1

    def test_what_does_not_fit_is_kept_in_memory(self, tmp_path: Path) -> None:
        cache = ImageCache(tmp_path / "never made", limit=0)
        cache.put(KEY, IMAGE)
        assert cache.get(KEY) == IMAGE
        assert not cache.directory.exists()

    def test_the_newest_stays_however_large(self, tmp_path: Path) -> None:
        cache = filled(tmp_path, 3, 10)
        cache.limit = 2000
        cache.put(KEY, Image("ptx", "compute_80", bytes(1800), {}))
        assert keys(tmp_path) == [int(KEY, 16)]

    def test_only_what_is_ours_and_old(self, tmp_path: Path) -> None:
        filled(tmp_path, 2, 100)
        others = ["notes.txt", "x.image", ".profile", ".abcdefgh.tmp", "counters"]
        for name in others:
            (tmp_path / name).write_text(name)
        old = tmp_path / ".12345678.tmp"
        old.write_text("left by a process that was killed")
        os.utime(old, (0, time.time() - 7200))
        (tmp_path / f"{7:064x}.image").mkdir()
        sweep(tmp_path, 1)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            [*others, f"{7:064x}.image"]
        )

    @pytest.mark.parametrize("years", [1, 50])
    def test_a_date_in_the_future_makes_nothing_old(self, tmp_path: Path, years: int) -> None:
        filled(tmp_path, 3, 100)
        future = tmp_path / f"{1:064x}.image"
        os.utime(future, (0, time.time() + years * 366 * 86400))
        live = [".abcdefgh.tmp", f"{8:064x}.lock", "host/module-abcdefgh.so"]
        (tmp_path / "host").mkdir()
        for name in live:
            (tmp_path / name).write_text("of a process that runs")
        size = entries(tmp_path)[0].size
        assert [int(one.key, 16) for one in sweep(tmp_path, 3 * size)] == [1], "it goes first"
        assert keys(tmp_path) == [0, 2]
        assert all((tmp_path / name).exists() for name in live)

    def test_a_use_heals_a_date_in_the_future(self, tmp_path: Path) -> None:
        cache = ImageCache(tmp_path)
        cache.put(KEY, IMAGE)
        os.utime(cache.path(KEY), (0, time.time() + 1e8))
        assert ImageCache(tmp_path).get(KEY) == IMAGE
        assert abs(cache.path(KEY).stat().st_mtime - time.time()) < 3600

    def test_nothing_is_old_where_no_file_can_be_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old = tmp_path / ".12345678.tmp"
        old.write_text("")
        os.utime(old, (0, 1e9))

        def fail(*arguments: object, **options: object) -> None:
            raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

        monkeypatch.setattr(tempfile, "mkstemp", fail)
        assert sweep(tmp_path, 1) == () and old.exists()

    def test_readers_writers_and_sweepers(self, tmp_path: Path) -> None:
        wanted = [f"{number:064x}" for number in range(20)]
        images = {key: Image("ptx", "compute_80", key.encode() * 20, {}) for key in wanted}

        def work(seed: int) -> int:
            wrong, draw = 0, random.Random(seed)
            for _ in range(200):
                key = draw.choice(wanted)
                cache = ImageCache(tmp_path, limit=8000)
                found = cache.get(key)
                wrong += found is not None and found != images[key]
                if found is None:
                    cache.put(key, images[key])
                if draw.random() < 0.2:
                    sweep(tmp_path, 4000)
            return wrong

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(work, range(8))) == 0
        assert {path.name.split(".")[-1] for path in tmp_path.iterdir()} == {"image", "counters"}

    def test_what_changed_since_it_was_listed_stays(self, tmp_path: Path) -> None:
        cache = filled(tmp_path, 1, 10)
        (listed,) = entries(tmp_path)
        cache.put(listed.key, OTHER)
        assert not folder.remove(listed)
        assert keys(tmp_path) == [0]
        assert folder.remove(entries(tmp_path)[0]) and folder.remove(listed)


class TestCounters:
    def test_are_added_when_a_cache_is_gone(self, tmp_path: Path) -> None:
        cache = ImageCache(tmp_path)
        cache.get(KEY)
        cache.put(KEY, IMAGE)
        assert read_counts(tmp_path) == CacheStatistics()
        del cache
        again = ImageCache(tmp_path)
        again.get(KEY)
        again.get(KEY)
        del again
        assert read_counts(tmp_path) == CacheStatistics(disk_hits=1, misses=1)

    def test_of_processes(self, tmp_path: Path) -> None:
        code = (
            "from pathlib import Path\nfrom kspec.compiler import ImageCache\n"
            f"cache = ImageCache(Path({str(tmp_path)!r})); cache.get('{KEY}')"
        )
        tmp_path.mkdir(exist_ok=True)
        for _ in range(2):
            run_python(code, ROOT)
        assert read_counts(tmp_path) == CacheStatistics(misses=2)

    def test_torn_lines_are_left_out(self, tmp_path: Path) -> None:
        (tmp_path / "counters").write_bytes(
            b"1 1 2 3 4\n1 1 2\n\0\0\0\0\n2 9 9 9 9\n1 1 1 1 1\n1 5 5 5"
        )
        assert read_counts(tmp_path) == CacheStatistics(0, 2, 3, 4, 5)

    def test_many_lines_become_one(self, tmp_path: Path) -> None:
        (tmp_path / "counters").write_bytes(b"1 1 0 2 0\n" * 30_000)
        add_counts(tmp_path, CacheStatistics(layer_hits=7))
        assert (tmp_path / "counters").read_text() == "1 30000 7 60000 0\n"

    def test_nothing_is_written_where_nothing_can_be(self, tmp_path: Path) -> None:
        add_counts(tmp_path / "missing", CacheStatistics(misses=1))
        add_counts(tmp_path, CacheStatistics(memory_hits=1))
        assert list(tmp_path.iterdir()) == []


class TestFaults:
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
    @pytest.mark.parametrize("where", ["mkstemp", "write"])
    def test_a_write_that_fails(
        self, number: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache = ImageCache(tmp_path)
        cache.put("cd" * 32, OTHER)

        def fail(*arguments: object, **options: object) -> None:
            raise OSError(number, os.strerror(number))

        if where == "mkstemp":
            monkeypatch.setattr(tempfile, "mkstemp", fail)
        else:
            monkeypatch.setattr(os, "fdopen", _FailingFile(fail))
        with pytest.warns(RuntimeWarning, match=os.strerror(number)):
            cache.put(KEY, IMAGE)
        monkeypatch.undo()
        assert cache.get(KEY) == IMAGE
        assert keys(tmp_path) == [int("cd" * 32, 16)]
        assert not list(tmp_path.glob(".*"))

    def test_a_full_disk(self, tmp_path: Path) -> None:
        if os.geteuid() or not shutil.which("mount"):
            pytest.skip("mounting takes root")
        place = tmp_path / "disk"
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(place)]
        if subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            cache = ImageCache(place)
            cache.put("cd" * 32, OTHER)
            with pytest.warns(RuntimeWarning, match="No space left on device"):
                cache.put(KEY, Image("ptx", "compute_80", bytes(200_000), {}))
            assert keys(place) == [int("cd" * 32, 16)]
            assert ImageCache(place).get("cd" * 32) == OTHER
            assert not list(place.glob(".*"))
        finally:
            subprocess.run(["umount", str(place)], check=True)

    def test_no_home_and_an_unknown_user(self, tmp_path: Path) -> None:
        """A kernel runs twice, in two processes; the second finds it, and each warns once."""
        code = """
import os, pwd
import numpy as np

def unknown(user):
    raise KeyError(user)

pwd.getpwuid = unknown
for name in ("HOME", "XDG_CACHE_HOME", "KSPEC_CACHE_DIR"):
    os.environ.pop(name, None)
import kspec
from kspec.runtime.modules.provider import user_cache

print(kspec.ElementwiseKernel("T x", "T y", "y = x + 40", "homeless")(np.ones(1, "i4")))
print(user_cache().statistics.misses)
"""
        outputs = []
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", code],
                # With the runtime of the host device.
                env=environment(ROOT)
                | {"TMPDIR": str(tmp_path), "KSPEC_CACHE_LAYERS": str(own_cache.FOLDER)},
                capture_output=True,
                text=True,
            )
            assert done.stderr.count("Warning") == 1, done.stderr
            assert f"are kept in {tmp_path}/kspec-{os.geteuid()};" in done.stderr
            outputs.append(done.stdout)
        assert outputs == ["[41]\n1\n", "[41]\n0\n"]

    def test_a_folder_that_cannot_be_written_warns_once(self, tmp_path: Path) -> None:
        """Kernels, and the runtime of the host device, have caches of their own."""
        (tmp_path / "file").write_text("")
        code = """
import numpy as np, kspec
for number in range(2):
    y = f"y = x + {number}"
    print(kspec.ElementwiseKernel("T x", "T y", y, f"unwritable{number}")(np.ones(1, "i4")))
"""
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", code],
            env=environment(ROOT) | {"KSPEC_CACHE_DIR": str(tmp_path / "file/cache")},
            capture_output=True,
            text=True,
        )
        assert done.stdout == "[1]\n[2]\n", done.stderr
        assert done.stderr.count("Warning") == 1 and "cannot write its cache" in done.stderr

    def test_a_folder_that_vanishes(self, tmp_path: Path) -> None:
        cache = ImageCache(tmp_path / "cache")
        cache.put(KEY, IMAGE)
        shutil.rmtree(cache.directory)
        assert ImageCache(cache.directory).get(KEY) is None
        cache.put(KEY, IMAGE)
        assert ImageCache(cache.directory).get(KEY) == IMAGE

    def test_a_file_replaced_on_a_network_is_read_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ImageCache(tmp_path).put(KEY, IMAGE)
        read, failures = folder.read_trusted, [OSError(errno.ESTALE, "Stale file handle")]

        def stale(path: Path) -> bytes:
            if failures:
                raise failures.pop()
            return read(path)

        monkeypatch.setattr(folder, "read_trusted", stale)
        assert ImageCache(tmp_path).get(KEY) == IMAGE
        assert not failures


class _FailingFile:
    """Stands for `os.fdopen`: what is written fails half way."""

    def __init__(self, fail: Callable[..., None]) -> None:
        self._fail, self._open = fail, os.fdopen

    def __call__(self, descriptor: int, mode: str) -> object:
        file = self._open(descriptor, mode)

        class Writer:
            def __enter__(writer) -> object:
                return writer

            def __exit__(writer, *error: object) -> None:
                file.close()

            def write(writer, data: bytes) -> None:
                file.write(data[: len(data) // 2])
                self._fail()

        return Writer()


def test_memory_keeps_the_images_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_IN_MEMORY", 3)
    cache = ImageCache(tmp_path / "no", limit=0)  # nothing is kept on disk
    keys = [f"{number:064x}" for number in range(5)]
    images = {key: Image("cubin", "sm_90", key.encode(), {}) for key in keys}
    for key in keys[:3]:
        cache.put(key, images[key])
    assert cache.get(keys[0]) is images[keys[0]]
    for key in keys[3:]:
        cache.put(key, images[key])
        cache.put_failure(key, CompileError(key, target="sm_90"))
        with cache.guard(key):
            pass
    assert [cache.get(key) is not None for key in keys] == [True, False, False, True, True]
    for number in range(5, 8):
        cache.put_failure(f"{number:064x}", CompileError("no", target="sm_90"))
    assert [cache.failure(key) for key in keys[3:]] == [None, None]
    assert len(cache._guards) == 0
