"""``kspec cache``: what is there, what goes, what is damaged."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from kspec.build.tools.cache import parse_age
from kspec.compiler.cache import ImageCache
from kspec.errors import SpecError
from kspec.model.stages import Image

IMAGE = Image("ptx", "compute_80", b"//" * 500, {"k": "k"})
DAY = 86400


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageCache:
    """A cache of three images, not used for 0, 10 and 40 days, with a layer of one."""
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("KSPEC_CACHE_LAYERS", str(tmp_path / "layer"))
    monkeypatch.setenv("KSPEC_CACHE_SIZE", "2G")
    ImageCache(tmp_path / "layer").put("ab" * 32, IMAGE)
    cache = ImageCache.configured()
    for number, days in enumerate((0, 10, 40)):
        key = f"{number:064x}"
        cache.put(key, IMAGE)
        os.utime(cache.path(key), (0, time.time() - days * DAY))
    return cache


def test_info(run, cache: ImageCache) -> None:
    (cache.directory / "counters").write_text("1 3 2 5 1\n1 1 0 0 0\n")
    status, out, err = run("cache", "info")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"folder    {cache.directory} (writable)"
    assert lines[1].startswith("images    3 (3.")
    assert lines[3:6] == [
        "limit     2.0 GiB",
        "found     4 here, 2 in layers, by processes that ended",
        "compiled  5, 1 of them damaged",
    ]
    assert lines[6] == f"layer     {cache.layers[0]} (read-only)"


def test_info_as_json(run, cache: ImageCache) -> None:
    data = json.loads(run("cache", "info", "--format", "json")[1])
    assert data["folder"]["path"] == str(cache.directory)
    assert (data["folder"]["entries"], data["limit"]) == (3, 2 << 30)
    assert data["folder"]["newest"] - data["folder"]["oldest"] == pytest.approx(40 * DAY, abs=60)
    assert [layer["entries"] for layer in data["layers"]] == [1]
    assert data["counters"] == {"disk_hits": 0, "layer_hits": 0, "misses": 0, "damaged": 0}


def test_info_where_there_is_nothing(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "none"))
    status, out, _ = run("cache", "info")
    assert status == 0 and f"{tmp_path / 'none'} (missing)\nimages    0 (0 bytes)\n" in out
    assert run("cache", "verify")[1] == "0 checked, 0 damaged, 0 removed\n"
    assert run("cache", "clear")[0] == 0
    assert not (tmp_path / "none").exists()


def test_info_says_what_is_not_used_and_why(run, cache: ImageCache) -> None:
    cache.directory.chmod(0o777)
    cache.layers[0].chmod(0o1777)
    lines = run("cache", "info")[1].splitlines()
    reason = "(not used: everyone can write it; chmod o-w it)"
    assert lines[0] == f"folder    {cache.directory} {reason}"
    assert f"layer     {cache.layers[0]} {reason}" in lines


def test_clear_removes_what_has_a_date_in_the_future(run, cache: ImageCache) -> None:
    live = cache.directory / f"{8:064x}.lock"
    live.write_text("")
    os.utime(cache.path(f"{0:064x}"), (0, time.time() + 400 * DAY))
    assert run("cache", "clear", "--older-than", "20d")[1].startswith("removed 1 file")
    assert run("cache", "clear")[1].startswith("removed 2 files")
    assert live.exists()


def test_verify_says_which_entries_are_not_used(run, cache: ImageCache) -> None:
    path = cache.path(f"{1:064x}")
    path.chmod(0o666)
    status, out, _ = run("cache", "verify")
    assert status == 1 and f"{path}\n    cannot be read: everyone can write it; chmod o-w it" in out


def test_clear_removes_what_is_ours(run, cache: ImageCache) -> None:
    kept = ["notes.txt", "thesis.image", "sub"]
    (cache.directory / "sub").mkdir()
    for name in kept[:2]:
        (cache.directory / name).write_text("mine")
    (cache.directory / "counters").write_text("1 3 2 5 1\n")
    status, out, _ = run("cache", "clear")
    assert status == 0
    assert out.startswith("removed 3 files (3.") and f"kept 0: {cache.directory}" in out
    assert sorted(path.name for path in cache.directory.iterdir()) == sorted(kept)
    assert cache.layers[0].is_dir() and len(list(cache.layers[0].iterdir())) == 1


def test_clear_what_is_old(run, cache: ImageCache) -> None:
    assert "removed 1 file (" in run("cache", "clear", "--older-than", "30d")[1]
    assert "kept 1:" in run("cache", "clear", "--older-than", "36h")[1]
    assert cache.path(f"{0:064x}").exists()


def test_verify(run, cache: ImageCache) -> None:
    assert run("cache", "verify")[:2] == (0, "4 checked, 0 damaged, 0 removed\n")
    damaged = cache.path(f"{1:064x}")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    cache.path(f"{9:064x}").write_bytes(cache.path(f"{2:064x}").read_bytes())
    status, out, err = run("cache", "verify")
    assert status == 1 and "--repair" in err
    assert f"{damaged}\n    damaged image: checksum differs\n" in out
    assert "the image of another key" in out
    assert out.endswith("5 checked, 2 damaged, 0 removed\n")
    status, out, _ = run("cache", "verify", "--repair")
    assert status == 0 and out.endswith("5 checked, 2 damaged, 2 removed\n")
    assert not damaged.exists()
    assert run("cache", "verify")[0] == 0


def test_verify_only_reads_layers(run, cache: ImageCache) -> None:
    path = ImageCache(cache.layers[0]).path("ab" * 32)
    path.write_bytes(b"")
    status, out, err = run("cache", "verify", "--repair", "--format", "json")
    assert status == 1 and "layers are only read" in err
    data = json.loads(out)
    assert (data["checked"], data["removed"]) == (4, 0)
    assert data["damaged"] == [
        {"path": str(path), "bytes": 0, "reason": "not a packed image: too short"}
    ]
    assert path.exists()


def test_ages() -> None:
    assert [parse_age(text) for text in ("90s", "2h", "30d", "1w")] == [90, 7200, 30 * DAY, 7 * DAY]
    for text in ("", "30", "d", "-1d", "1.5h", "30 days"):
        with pytest.raises(SpecError, match="such as 30d"):
            parse_age(text)


def test_wrong_arguments(run, cache: ImageCache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("cache", "clear", "--older-than", "soon")[0] == 2
    assert run("cache", "info", "--format", "xml")[0] == 2
    monkeypatch.setenv("KSPEC_CACHE_SIZE", "large")
    status, _, err = run("cache", "info")
    assert status == 1 and "KSPEC_CACHE_SIZE='large'" in err
