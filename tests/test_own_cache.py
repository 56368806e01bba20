"""The suite keeps its images in the checkout, in each of its processes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import kspec
from kspec import config
from kspec.runtime.modules.provider import user_cache
from tests.own_cache import FOLDER, use_own_cache
from tests.projects import ROOT, environment


def test_kernels_are_kept_in_the_checkout() -> None:
    assert config.cache_dir() == FOLDER and config.cache_layers() == ()
    kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + 3", "kept_in_the_checkout")
    assert kernel(np.ones(1, "i4")) == 4
    assert user_cache().directory == FOLDER and FOLDER.is_dir()


def test_variables_of_the_user_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_CACHE_DIR", "/of/the/user")
    monkeypatch.setenv("KSPEC_CACHE_LAYERS", "/of/the/team")
    monkeypatch.setenv("KSPEC_CACHE_SIZE", "1K")
    use_own_cache()
    assert config.cache_dir() == FOLDER and config.cache_layers() == ()
    assert config.cache_size() > 1 << 20


def test_processes_keep_them_there_too() -> None:
    code = "from kspec import config; print(config.cache_dir())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(ROOT) | {"XDG_CACHE_HOME": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{FOLDER}\n"
