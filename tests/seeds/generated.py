"""The generated package, as a user imports it."""

from __future__ import annotations

import importlib
from typing import Any


def generated_module(stem: str) -> Any:
    """Return ``kspec_kernels.<stem>``, which `kspec build` writes."""
    return importlib.import_module(f"kspec_kernels.{stem}")
