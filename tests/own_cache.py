"""The cache of images of this checkout: tests neither read nor write that of their user.

It is kept between runs, and all processes of a run share it.
"""

from __future__ import annotations

import os

from tests.projects import ROOT

FOLDER = ROOT / ".cache/kspec"


def use_own_cache() -> None:
    """Let this process, and those that it starts, keep compiled images in this checkout."""
    os.environ["KSPEC_CACHE_DIR"] = str(FOLDER)
    for name in ("KSPEC_CACHE_LAYERS", "KSPEC_CACHE_SIZE"):
        os.environ.pop(name, None)
