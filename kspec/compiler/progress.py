"""A line on a terminal while a compile takes long; it goes when the compile ends.

::

    with compiling("norms.cu for sm_90"):
        ...              # after two seconds: "kspec: compiling norms.cu for sm_90 ..."

It is written to standard error, and only if that is a terminal (``KSPEC_PROGRESS``).
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kspec import config

PATIENCE = 2.0  # seconds without a line


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Show what is being compiled, if that takes longer than `PATIENCE`."""
    stream = sys.stderr
    if stream is None or not config.shows_progress(stream.isatty()):
        yield
        return
    line = f"kspec: compiling {what} ..."[: shutil.get_terminal_size().columns - 1]
    shown: list[str] = []

    def show() -> None:
        shown.append(line)
        stream.write(f"\r{line}")
        stream.flush()

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for one in shown:
            stream.write(f"\r{' ' * len(one)}\r")
            stream.flush()
