"""Libraries that only some commands need: said in one line when they are missing."""

from __future__ import annotations

import importlib.util

from kspec.errors import ToolNotFoundError


def require_hypothesis() -> None:
    """Check that property tests can be run.

    Raises
    ------
    ToolNotFoundError
        If Hypothesis is not installed; the message says how to install it.
    """
    if importlib.util.find_spec("hypothesis") is None:
        raise ToolNotFoundError(
            "tests of kernels need Hypothesis, which is not installed: "
            "python -m pip install 'kspec[test]'"
        )
