from __future__ import annotations

import os
import pwd
import re
import tempfile
from pathlib import Path

import pytest

from kspec import config
from kspec.errors import KspecError


def test_jit_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_JIT", raising=False)
    assert config.jit_mode() == "auto"
    monkeypatch.setenv("KSPEC_JIT", "never")
    assert config.jit_mode() == "never"
    monkeypatch.setenv("KSPEC_JIT", "maybe")
    with pytest.raises(KspecError, match="KSPEC_JIT='maybe': expected one of auto, never, always"):
        config.jit_mode()


def test_cache_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_CACHE_DIR", "/somewhere")
    assert config.cache_dir() == Path("/somewhere")
    monkeypatch.delenv("KSPEC_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert config.cache_dir() == Path("/xdg/kspec")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert config.cache_dir() == Path.home() / ".cache" / "kspec"


def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user that has no home directory, as `docker run --user 4321` is."""
    for name in ("HOME", "XDG_CACHE_HOME", "KSPEC_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def unknown(user: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {user}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)


def test_cache_dir_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    homeless(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config._temporary_cache.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="HOME is not set and user .* kept in") as caught:
            found = {config.cache_dir() for _ in range(3)}
        assert found == {tmp_path / f"kspec-{os.geteuid()}"} and len(caught) == 1
    finally:
        config._temporary_cache.cache_clear()


@pytest.mark.parametrize("name", ["KSPEC_CACHE_DIR", "XDG_CACHE_HOME", "KSPEC_CACHE_LAYERS"])
def test_a_home_that_is_not_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    homeless(monkeypatch)
    monkeypatch.setenv(name, "~/cache")
    with pytest.raises(KspecError, match=f"{name}='~/cache': the home directory of ~ is not known"):
        config.cache_layers() if name == "KSPEC_CACHE_LAYERS" else config.cache_dir()


def test_cache_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_CACHE_LAYERS", raising=False)
    assert config.cache_layers() == ()
    monkeypatch.setenv("KSPEC_CACHE_LAYERS", os.pathsep.join(["/a", "", "~/b"]))
    assert config.cache_layers() == (Path("/a"), Path.home() / "b")


def test_cache_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_CACHE_SIZE", raising=False)
    assert config.cache_size() == 1 << 30
    sizes = {"0": 0, "1000": 1000, "512M": 512 << 20, "2G": 2 << 30, "3 KiB": 3072, "1tb": 1 << 40}
    for text, wanted in sizes.items():
        monkeypatch.setenv("KSPEC_CACHE_SIZE", text)
        assert config.cache_size() == wanted
    for text in ("-1", "much", "1.5G", "G", "1" * 20):
        monkeypatch.setenv("KSPEC_CACHE_SIZE", text)
        with pytest.raises(KspecError, match="expected bytes, such as 512M or 2G"):
            config.cache_size()


def test_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_CXX", raising=False)
    monkeypatch.setenv("CXX", "clang++")
    assert config.cxx() == "clang++"
    monkeypatch.setenv("KSPEC_CXX", "g++-13")
    assert config.cxx() == "g++-13"


def test_pool_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_POOL_LIMIT", raising=False)
    assert config.pool_limit() is None
    for text, wanted in (("", None), ("0", 0), ("1024", 1024)):
        monkeypatch.setenv("KSPEC_POOL_LIMIT", text)
        assert config.pool_limit() == wanted
    for text in ("1G", "-1", "0.5", "9" * 5000):
        monkeypatch.setenv("KSPEC_POOL_LIMIT", text)
        with pytest.raises(KspecError, match=f"KSPEC_POOL_LIMIT='{text}': expected a number"):
            config.pool_limit()


def test_host_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_HOST_THREADS", raising=False)
    assert config.host_threads() == min(os.cpu_count() or 1, 512)
    monkeypatch.setenv("KSPEC_HOST_THREADS", "3")
    assert config.host_threads() == 3
    for text in ("513", str(1 << 32), str(1 << 63)):  # no C integer
        monkeypatch.setenv("KSPEC_HOST_THREADS", text)
        assert config.host_threads() == 512
    for text in ("0", "-1", "many", "9" * 5000):
        monkeypatch.setenv("KSPEC_HOST_THREADS", text)
        with pytest.raises(KspecError, match="expected a positive integer"):
            config.host_threads()


@pytest.mark.parametrize("place", ["host", "cuda"])
def test_optimization(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    variable, level_of = f"KSPEC_{place.upper()}_OPT", getattr(config, f"{place}_optimization")
    for text, level in (("", 3), ("0", 0), ("1", 1)):
        monkeypatch.setenv(variable, text)
        assert level_of() == level
    monkeypatch.delenv(variable)
    assert level_of() == 3
    for text in ("4", "-1", "fast", "s"):
        monkeypatch.setenv(variable, text)
        with pytest.raises(KspecError, match=f"{variable}='{text}': expected 0, 1, 2 or 3"):
            level_of()


def test_graph_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_GRAPH_LAUNCH", raising=False)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    assert config.graph_launch() == "auto"
    monkeypatch.setenv("KSPEC_GRAPH_LAUNCH", "always")
    assert config.graph_launch() == "always"
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert config.graph_launch() == "never"
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    monkeypatch.setenv("KSPEC_GRAPH_LAUNCH", "1")
    with pytest.raises(KspecError, match="KSPEC_GRAPH_LAUNCH='1': expected one of auto, never"):
        config.graph_launch()


def test_all_variables_are_listed() -> None:
    text = Path(config.__file__).read_text(encoding="utf-8")
    code = re.sub(r"VARIABLES = \(.*?\)\n", "", text.split('"""', 2)[2], flags=re.DOTALL)
    read = set(re.findall(r'"([A-Z]+_[A-Z_]+|CXX|CPATH)"', code))
    assert read == set(config.VARIABLES)
    assert {name for name in read if name.startswith("KSPEC_")} == set(
        re.findall(r"^``(KSPEC_\w+)``", text, re.MULTILINE)
    )


def test_variables_of_launches_are_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SANITIZE", "ORDER", "TIMEOUT", "REVIEW"):
        monkeypatch.delenv(f"KSPEC_HOST_{name}", raising=False)
    assert config.host_checks() == ("", "", "", "")
    monkeypatch.setenv("KSPEC_HOST_ORDER", "reverse")
    assert config.host_checks() == ("", "reverse", "", "")
    monkeypatch.delenv("KSPEC_HOST_ORDER")
    assert config.host_checks() == ("", "", "", "")
    # As some do in tests: a mapping that has no encoded names.
    monkeypatch.setattr(os, "environ", {"KSPEC_HOST_REVIEW": "1", "KSPEC_HOST_THREADS": "3"})
    assert config.host_checks() == ("", "", "", "1")
    assert config.host_threads() == 3
