"""Workers side by side, each a process that is replaced when a call ends it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.cupyx.calls import CALLS
from tests.cupyx.results import difference

WORKERS = 16
LIMIT = 100  # seconds for one call, the import of its module included


@dataclass(frozen=True)
class Outcome:
    """What one call of the table came to.

    Attributes
    ----------
    module, call : str
        Where it stands in the table, and its expression.
    verdict : {"same", "differs", "fails", "not in CuPy"}
        "not in CuPy" are calls that CuPy itself refuses.
    message : str
        The error, or the first difference.
    kernels : int
        Kernels of kspec that the call used.
    """

    module: str
    call: str
    verdict: str
    message: str = ""
    kernels: int = 0


def run(variant: str = "both", only: str = "", workers: int = WORKERS) -> list[Outcome]:
    """Evaluate the calls whose text or module begins with `only`; return their outcomes in order."""
    chosen = [
        (module, call)
        for module, calls in CALLS.items()
        for call in calls
        if call.startswith(only) or module == only
    ]
    variants = ("plain", "swapped") if variant == "both" else (variant,)
    with tempfile.TemporaryDirectory(prefix="kspec-cupyx-") as folder:
        files = {
            (kind, call): Path(folder, f"{kind}-{number}.npz")
            for number, (_, call) in enumerate(chosen)
            for kind in variants
        }
        answers = _answers(files, workers)
        return [_outcome(module, call, variants, answers, files) for module, call in chosen]


def _outcome(
    module: str, call: str, variants: tuple[str, ...], answers: Any, files: dict[Any, Path]
) -> Outcome:
    results = [answers[kind, call] for kind in variants]
    kernels = results[-1]["kernels"]
    for kind, result in zip(variants, results, strict=True):
        if result["error"] is not None:
            verdict = "fails" if kind == "swapped" else "not in CuPy"
            return Outcome(module, call, verdict, result["error"], kernels)
    loaded = [dict(np.load(files[kind, call])) for kind in variants]
    found = difference(loaded[0], loaded[-1])
    return Outcome(module, call, "same" if found is None else "differs", found or "", kernels)


def _answers(files: dict[tuple[str, str], Path], workers: int) -> dict[tuple[str, str], Any]:
    """Let workers of each kind answer all calls; return the answers."""
    kinds = {kind for kind, _ in files}
    waiting = {kind: [key for key in files if key[0] == kind] for kind in kinds}
    answers: dict[tuple[str, str], Any] = {}

    def answer_all(kind: str) -> None:
        worker = Worker(kind)
        while True:
            try:
                key = waiting[kind].pop(0)
            except IndexError:
                worker.end()
                return
            answers[key] = worker.ask(key[1], files[key])

    with ThreadPoolExecutor(workers) as threads:
        count = max(1, workers // len(kinds))
        for done in [threads.submit(answer_all, kind) for kind in sorted(kinds) * count]:
            done.result()
    return answers


class Worker:
    """A process that answers calls, or the next one if it has ended."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._process: subprocess.Popen[str] | None = None

    def ask(self, call: str, file: Path) -> dict[str, Any]:
        """Return the answer; if the process ends without one, that is the error."""
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps([call, str(file)]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        timer.cancel()
        if line:
            answer: dict[str, Any] = json.loads(line)
            if answer["lost"]:
                self.end()
            return answer
        status = process.wait()
        self.end()
        return {"error": f"the process ended with status {status}", "kernels": 0}

    def end(self) -> None:
        """Let the process end."""
        if self._process is not None:
            self._process.communicate()
        self._process = None

    def _started(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.cupyx.worker", self._kind]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        return self._process
