"""Reviews of a whole program (``KSPEC_HOST_REVIEW=1``): each launch of another size, once."""

from __future__ import annotations

import sys

from kspec.host.recording import ReviewedLaunch
from kspec.reviews.review import Review, review_launch

_seen: set[tuple[object, ...]] = set()


def show(launch: ReviewedLaunch) -> None:
    """Print the review of a launch to the standard error, if it is the first of its kind."""
    key = launch.kernel, launch.grid, launch.block, launch.shared_mem
    if key in _seen:
        return
    _seen.add(key)
    print(Review((review_launch(launch),)), file=sys.stderr)
