"""A compiler's log in, the reason why the system stopped it out, which does not depend on the text.

>>> stop_reason(1, "g++: fatal error: Killed signal terminated program cc1plus")
'Killed signal terminated program cc1plus'
>>> stop_reason(1, "k.cu:1:2: error: #error out of memory")
''

A source that does not compile is remembered; one whose compiler was killed, or had no memory or
space, is compiled again when it is asked for.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator

from kspec.errors import ToolStoppedError

# Messages of the compilers' own drivers, and errno texts of temporary failures.
_REASON = re.compile(
    r"\w[\w ]* signal terminated program \w+"
    r"|unable to execute command: \w+"
    r"|(?:died|failed) due to signal \d+"
    r"|internal compiler error: Killed"
    r"|no space left on device|disk quota exceeded|file too large|file size limit exceeded"
    r"|cannot allocate memory|out of memory|memory exhausted|std::bad_alloc"
    r"|too many open files|resource temporarily unavailable|input/output error",
    re.IGNORECASE,
)
# What the text is told, which may have such words: `k.cu:3:2: error: #error out of memory`.
_ABOUT_TEXT = re.compile(r":\d+(?::\d+)?: (?:error|warning|note): |^\s|: No such file")
# A compiler that crashes does so again.
_CRASHES = ("Segmentation fault", "Aborted", "Illegal instruction")


def stop_reason(status: int, log: str) -> str:
    """Return the reason why a compiler was stopped; empty if the text was it.

    Parameters
    ----------
    status : int
        Of `subprocess`: negative for a signal.
    log : str
        What it printed.
    """
    if status < 0:
        return f"signal {-status} ({signal.strsignal(-status)})"
    if status == 0:
        return ""
    for line in log.splitlines():
        found = None if _ABOUT_TEXT.search(line) else _REASON.search(line)
        if found and not any(word in found[0] for word in _CRASHES):
            return found[0]
    return ""


def check_not_stopped(name: str, tool: str, status: int, log: str) -> None:
    """Check that the text decided how a compiler ended.

    Raises
    ------
    ToolStoppedError
        If something else did; it names the source and the tool.
    """
    reason = stop_reason(status, log)
    if reason:
        raise _stopped(name, tool, reason, f"\n{log.strip()}" if log.strip() else "")


@contextlib.contextmanager
def system_errors(name: str, tool: str) -> Iterator[None]:
    """Turn errors of the system in the block, such as a full disk, into a `ToolStoppedError`."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise _stopped(name, tool, f"{error.strerror or error}{where}") from error


def _stopped(name: str, tool: str, reason: str, log: str = "") -> ToolStoppedError:
    return ToolStoppedError(
        f"{name}: {tool} was stopped by the system, not by the text: {reason}; see that memory and "
        f"space for temporary files (TMPDIR) are free, and try again{log}"
    )
