"""Which GPUs a process of tests sees first, when several run side by side."""

from __future__ import annotations

import os
from pathlib import Path


def in_turn(number: int) -> dict[str, str]:
    """Return the setting that makes the GPUs come in turn: all of them, another one first."""
    count = 0 if "CUDA_VISIBLE_DEVICES" in os.environ else installed()
    order = [str((number + one) % count) for one in range(count)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(order)} if count > 1 else {}


def installed() -> int:
    """Return how many GPUs there are, without asking the driver: the setting comes before it."""
    return len(list(Path("/dev").glob("nvidia[0-9]*")))
