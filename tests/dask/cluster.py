"""Tasks of the cluster tests, in a module that workers can import."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 1 << 20


def block_of(number: int, marks: Path | None = None) -> np.ndarray:
    """Return the elements of a block: the same whoever makes it, and however often."""
    if marks is not None:
        time.sleep(0.03)
        (marks / f"{number}-{time.monotonic_ns()}").touch()
    return np.random.default_rng(number).random(BLOCK)


def make_block(marks: str, block_id: Any = None) -> np.ndarray:
    """Return a block of a Dask array."""
    return block_of(block_id[0], Path(marks))
