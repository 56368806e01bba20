"""Pages in a headless Chromium, driven over the DevTools protocol through two pipes.

The protocol's messages are JSON, each ended by a zero byte; no library is needed.  Of the browser
only what tests of pages need is here: a page opened at a width and in a colour scheme, an
expression evaluated in it, and a picture of it.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless",
    "--no-sandbox",  # root cannot have one
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    # Pages are files: names of hosts are unknown at once, without a network to wait for.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
_SECONDS = 60.0  # for one answer, on a busy machine


def find_chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """A browser with one page, which is a new tab each time one is opened."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._number, self._rest = 0, b""
        self._session: str | None = None
        self._tab = ""

    def open(self, page: Path, width: int, scheme: str, height: int = 900) -> None:
        """Open a file as on a screen of a width in CSS pixels; `scheme` is "light" or "dark"."""
        self._session, last = None, self._tab
        self._tab = self._call("Target.createTarget", url="about:blank")["targetId"]
        if last:
            self._call("Target.closeTarget", targetId=last)
        attached = self._call("Target.attachToTarget", targetId=self._tab, flatten=True)
        self._session = attached["sessionId"]
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        wanted = {"name": "prefers-color-scheme", "value": scheme}
        self._call("Emulation.setEmulatedMedia", features=[wanted])
        opened = self._call("Page.navigate", url=page.resolve().as_uri())
        assert "errorText" not in opened, opened["errorText"]
        loaded = "document.readyState === 'complete' ? done() : addEventListener('load', done)"
        self.evaluate(f"new Promise(done => {loaded})")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, or of its promise, as JSON has it."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def photograph(self, path: Path, whole: bool = False) -> None:
        """Write a PNG file of what is seen, or of the whole page."""
        answer = self._call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **params: object) -> Mapping[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._requests, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._message(time.monotonic() + _SECONDS))
            if answer.get("id") == self._number:  # others are events
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _message(self, deadline: float) -> bytes:
        while b"\0" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._answers], [], [], left)
            part = os.read(self._answers, 1 << 16) if ready else b""
            if not part:
                raise RuntimeError("the browser does not answer")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return message


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile, and end it afterwards."""
    theirs_in, requests = os.pipe()
    answers, theirs_out = os.pipe()
    silent = os.open(os.devnull, os.O_RDWR)
    # The protocol's pipes are descriptors 3 and 4. Either may be one of these files, so both are
    # copied above all of them first.
    high = max(theirs_in, theirs_out, silent) + 1
    above = [(theirs_in, high), (theirs_out, high + 1), (silent, 1), (silent, 2)]
    copies = [*above, (high, 3), (high + 1, 4)]
    child = os.posix_spawn(
        program,
        [program, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
        {**os.environ, "HOME": str(profile)},
        file_actions=[(os.POSIX_SPAWN_DUP2, *copy) for copy in copies],
        setpgroup=0,
    )
    for one in (theirs_in, theirs_out, silent):
        os.close(one)
    try:
        yield Browser(requests, answers)
    finally:
        os.close(requests)
        os.close(answers)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
