"""Run the table on CuPy's kernels and on kspec's, and say where they differ.

::

    python -m tests.cupyx                        both, compared: one line for each call that differs
    python -m tests.cupyx --only ndimage --full  part of the table, with whole error messages
    python -m tests.cupyx --plain                CuPy alone: what the table has that CuPy has not
    python -m tests.cupyx --scipy                SciPy in CuPy's place, on the CPU: is the table right?
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cupyx.pool import WORKERS, Outcome, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the failures and a summary; return 1 if a call differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.cupyx")
    which = parser.add_mutually_exclusive_group()
    for variant in ("both", "plain", "swapped", "scipy"):
        which.add_argument(
            f"--{variant}", dest="variant", action="store_const", const=variant, default="both"
        )
    parser.add_argument("--only", default="", help="calls that begin with that, or its modules")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--full", action="store_true", help="whole messages, not first lines")
    parser.add_argument("--workers", type=int, default=WORKERS)
    options = parser.parse_args(arguments)
    outcomes = run(options.variant, options.only, options.workers)
    for outcome in outcomes:
        if outcome.verdict != "same":
            print(shown(outcome, full=options.full))
    print(summary(outcomes))
    if options.json:
        options.json.write_text(json.dumps([vars(one) for one in outcomes], indent=1))
    return int(any(one.verdict in ("fails", "differs") for one in outcomes))


def shown(outcome: Outcome, *, full: bool = False) -> str:
    """Return one line about an outcome, or its whole message."""
    message = outcome.message if full else " ".join(outcome.message.split("\n")[:2])[:300]
    return f"{outcome.verdict:11} {outcome.call}\n            {message}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return a table: verdicts by module, and the calls that kernels of kspec took part in."""
    verdicts = ("same", "differs", "fails", "not in CuPy")
    lines = [
        f"{'module':12} " + " ".join(f"{verdict:>11}" for verdict in (*verdicts, "with kspec"))
    ]
    modules = list(dict.fromkeys(one.module for one in outcomes))
    for module in [*modules, "all"]:
        rows = [one for one in outcomes if module in (one.module, "all")]
        numbers = [sum(one.verdict == verdict for one in rows) for verdict in verdicts]
        numbers.append(sum(one.verdict == "same" and one.kernels > 0 for one in rows))
        lines.append(f"{module:12} " + " ".join(f"{number:11}" for number in numbers))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
