"""Libraries that only some commands need: found or not, or said in one line to be missing."""

from __future__ import annotations

import importlib.util

from kspec.errors import ToolNotFoundError


def can_build() -> bool:
    """Return whether specs can be read and rendered here: a deployment has not what that needs."""
    return all(importlib.util.find_spec(name) is not None for name in ("pydantic", "jinja2"))


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
