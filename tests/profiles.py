"""How many examples property tests draw: as many as they say, or few where each takes long.

``HYPOTHESIS_PROFILE=few`` chooses the latter, as `tests.sanitizer` does.
"""

from __future__ import annotations

import os

from hypothesis import settings

FEW = "few"
settings.register_profile(FEW, max_examples=20, deadline=None)


def load_profile() -> None:
    """Make the profile of the environment the default of all tests."""
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def examples(number: int) -> int:
    """Return a number of examples, or as many as few are."""
    few = os.environ.get("HYPOTHESIS_PROFILE") == FEW
    return min(number, settings.get_profile(FEW).max_examples) if few else number
