r"""Commands in, what they printed out: programs whose pipes no forked process keeps open.

>>> run_program(["echo", "done"]).stdout
'done\n'

A process that is forked while another thread starts a program has the program's end of its pipes,
too. The thread would read until the forked process ends, which may wait for the thread's work.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

# A fork waits until a program has started. Signal handlers may fork as well.
_starting = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_starting.acquire,
        after_in_parent=_starting.release,
        after_in_child=_starting.release,
    )


def run_program(
    command: Sequence[str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it printed.

    Where it has a folder to run in, its temporary files are in there, too.
    """
    with _starting:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "TMPDIR": str(cwd)} if cwd else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",  # headers of the system are passed on as they are
        )
    with process:
        try:
            printed, said = process.communicate()
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, printed, said)
