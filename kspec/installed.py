"""Where kspec's own files are: compilers read its headers from folders, not from archives."""

from __future__ import annotations

import functools
from pathlib import Path

from kspec.errors import ToolNotFoundError

ROOT = Path(__file__).resolve().parent


@functools.cache
def check_unpacked() -> None:
    """Check that kspec was not imported from an archive, in which nothing but Python finds files.

    Raises
    ------
    ToolNotFoundError
        If it was.
    """
    archive = next((one for one in ROOT.parents if one.is_file()), None)
    if archive is not None:
        raise ToolNotFoundError(
            f"kspec was imported from {archive}, an archive, and compilers cannot read its headers "
            "there; install kspec, or unpack the archive"
        )
