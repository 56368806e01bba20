"""How many examples property tests draw, and whether a run repeats those of another.

``HYPOTHESIS_PROFILE`` chooses:

==============  ===========================================================================
``fast``        at most 10 examples a test, the same ones in each run, so that the kernels of
                a second run are compiled already, and of the combinations of parameters those
                that `tests.choices` names: `make test`, `tests.sanitizer`
``thorough``    as many as each test asks for, drawn anew: the default, `make test-all`
``ci``          as many, the same ones in each run: `.ci/run`
==============  ===========================================================================

No profile has a deadline: how long an example takes says nothing on a machine that is busy.
Nor does one check how many draws are filtered: that depends on the draws.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FAST, THOROUGH, CI = "fast", "thorough", "ci"
_MOST_IN_FAST = 10
_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much]
_THOROUGH = settings(deadline=None, suppress_health_check=_CHECKS)
_REPEATED = settings(_THOROUGH, derandomize=True, database=None)
settings.register_profile(THOROUGH, _THOROUGH)
settings.register_profile(CI, _REPEATED)
settings.register_profile(FAST, _REPEATED, max_examples=_MOST_IN_FAST)


def load_profile() -> None:
    """Make the profile of the environment the default of all tests."""
    settings.load_profile(_profile())


def examples(number: int) -> int:
    """Return a number of examples, or the most that the profile allows."""
    return min(number, _MOST_IN_FAST) if is_fast() else number


def is_fast() -> bool:
    """Return whether a run is one of few examples."""
    return _profile() == FAST


def _profile() -> str:
    return os.environ.get("HYPOTHESIS_PROFILE", THOROUGH)
