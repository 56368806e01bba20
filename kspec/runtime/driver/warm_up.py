"""Preparations in a thread of their own while the driver starts.

Starting the driver and making a context take 0.1 to 0.2 s, in which Python has nothing to do (the
bindings release the interpreter's lock). `kspec.pipeline` adds the work that the first lazily
compiled kernel will need; `kspec.runtime.driver.api` runs it.

>>> warm_up, done = WarmUp(), []
>>> warm_up.add(lambda: done.append("ready"))
>>> thread = warm_up.start()
>>> thread.join(); done
['ready']
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

Task = Callable[[], object]


class WarmUp:
    """Tasks that run once, when there is time for them; each may be added again and again."""

    def __init__(self) -> None:
        self._tasks: dict[Task, None] = {}

    def add(self, task: Task) -> None:
        """Add a task; one that is there already is not added again."""
        self._tasks[task] = None

    def start(self) -> threading.Thread | None:
        """Run the tasks in a new thread and return it; None if there are none."""
        tasks, self._tasks = self._tasks, {}
        if not tasks:
            return None
        # No daemon: an interpreter that ends must not pull the compiler's library away under it.
        thread = threading.Thread(target=_run, args=(tuple(tasks),), name="kspec-warm-up")
        thread.start()
        return thread


def _run(tasks: tuple[Task, ...]) -> None:
    for task in tasks:
        # The call that needs the result does the same again, and reports the error.
        with contextlib.suppress(Exception):
            task()
