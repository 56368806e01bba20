"""The build hook of this repository: the same class that downstream projects get as a plugin.

A plugin is found through an entry point of the installed distribution, and in the isolated
environment of a build kspec is not installed yet.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from kspec.build.hook import KspecBuildHook


def get_build_hook() -> type[KspecBuildHook]:
    """Return the hook; asked for by hatchling."""
    return KspecBuildHook
