"""A process that evaluates calls: ``python -m tests.cupyx.worker plain|swapped|scipy``.

It reads a line of JSON for each call, ``[expression, file]``, writes the result into the file, and answers
with a line: ``{"error": ..., "kernels": ..., "lost": ...}``.  After an error that its CUDA context does not
survive, it is lost, and ends.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np

from tests.cupyx import swap
from tests.cupyx.calls import evaluate
from tests.cupyx.results import leaves


def main(variant: str) -> None:
    """Answer the calls that arrive on the standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    warnings.simplefilter("ignore")
    if variant == "swapped":
        swap.install()
    library = "scipy" if variant == "scipy" else "cupy"
    for line in sys.stdin:
        expression, file = json.loads(line)
        before = swap.Count.used
        error = _evaluated(expression, library, file)
        used = swap.Count.used - before
        lost = error is not None and not _context_works(library)
        answer = {"error": error, "kernels": used, "lost": lost}
        print(json.dumps(answer), file=answers, flush=True)
        if lost:
            return


def _evaluated(expression: str, library: str, file: str) -> str | None:
    try:
        with open(file, "wb") as stream:  # noqa: PTH123
            np.savez(stream, **leaves(evaluate(expression, library)))
    except Exception as error:  # any error of a call is its result
        return _told(error)
    return None


def _told(error: BaseException) -> str:
    """Return the class and the message of an error: of the first that kspec raised, if it did."""
    cause: Any = error
    while cause.__cause__ is not None and not type(cause).__module__.startswith("kspec"):
        cause = cause.__cause__
    return f"{type(cause).__name__}: {cause}"


def _context_works(library: str) -> bool:
    if library == "scipy":
        return True
    try:
        sys.modules["cupy"].zeros(1).get()
    except Exception:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1])
