"""The cache: what it keeps, and that nothing on the disk can hurt it."""

from __future__ import annotations

import pickle
import stat
import struct
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.compiler.cache import (
    MAGIC,
    SCHEMA,
    CacheStatistics,
    ImageCache,
    pack_image,
    unpack_image,
)
from kspec.errors import CompileError, LoadError
from kspec.stages import Figures, Image

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
    assert unpack_image(pack_image(image)) == image
    assert pack_image(image) == pack_image(unpack_image(pack_image(image)))


@given(st.binary(max_size=200))
def test_unpack_of_anything_is_a_load_error(data: bytes) -> None:
    with pytest.raises(LoadError):
        unpack_image(data)


PACKED = pack_image(IMAGE)
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
        unpack_image(bytes(data))


def test_messages_say_what_is_wrong() -> None:
    for case, message in [
        ("empty", "too short"),
        ("foreign", "magic"),
        ("future", f"schema {SCHEMA + 1}"),
        ("truncated", "checksum"),
    ]:
        with pytest.raises(LoadError, match=message):
            unpack_image(DAMAGED[case])
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
    with pytest.warns(RuntimeWarning, match="can not write its cache"):
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
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="replacing an open file fails there")
def test_eight_processes(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    with ProcessPoolExecutor(8, get_context("spawn")) as pool:
        assert list(pool.map(hammer, [cache] * 8, range(8))) == [0] * 8
    assert len(list(tmp_path.iterdir())) == 2
