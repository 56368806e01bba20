"""A process that compiles: jobs in by its standard input, answers out.

NVRTC serialises inside one process, so `kspec.build.images` starts a few of these.  They are
plain subprocesses and not a `multiprocessing` pool because that runs the caller's ``__main__``
again, which a build hook, a notebook or ``python -`` cannot offer.  A worker ends when its
standard input does, so none outlives a build that was killed.

::

    with Workers(2) as workers:
        for job, answer in workers.run([Job(source, Target("sm_90"))], cache): ...
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from types import TracebackType

from kspec.build import messages
from kspec.build.messages import Answer, Job
from kspec.compiler import ImageCache, compile_source, keep_image
from kspec.errors import KspecError
from kspec.model.stages import Image


def do_job(job: Job, cache: ImageCache) -> Iterator[Answer]:
    """Yield the answer of each of `Job.parts`; an error is the last."""
    for part in job.parts:
        start = time.process_time()
        try:
            image = compile_source(part.source, part.target, cache, part.also)
        except KspecError as error:
            yield Answer(error, time.process_time() - start)
            return
        yield Answer(image, time.process_time() - start)


class Workers:
    """A few processes that compile; use it as a context manager.

    Parameters
    ----------
    count : int
        Number of processes; with one, jobs run in this process.
    """

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(max_workers=count)
        self._processes = [_start() for _ in range(count)] if count > 1 else []
        self._idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)
        if count <= 1:
            self._idle.put(None)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            for process in self._processes:
                process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            process.communicate()  # closes its input, which ends it

    def run(self, jobs: Sequence[Job], cache: ImageCache) -> Iterator[tuple[Job, Answer]]:
        """Compile the jobs and yield each with its answer, as they finish.

        Processes have caches of their own, where the environment says; `cache` is for this one. It
        gets the images that they could not write, with one warning for all of them.

        After a source was refused, its other jobs are left out as far as they wait.
        """
        futures = {self._threads.submit(self._one, job, cache): job for job in jobs}
        for future in as_completed(futures):
            if future.cancelled():
                continue
            job = futures[future]
            for part, answer in zip(job.parts, future.result(), strict=False):
                if isinstance(answer.outcome, KspecError):
                    for other, waiting in futures.items():
                        if waiting.source is job.source:
                            other.cancel()
                yield part, answer

    def _one(self, job: Job, cache: ImageCache) -> list[Answer]:
        process = self._idle.get()
        try:
            if process is None:
                return [*do_job(job, cache)]
            answers = [*_ask(process, job)]
            for part, answer in zip(job.parts, answers, strict=False):
                if isinstance(answer.outcome, Image):
                    keep_image(part.source, part.target, cache, answer.outcome)
            return answers
        finally:
            self._idle.put(process)


def _start() -> subprocess.Popen[bytes]:
    # The worker imports what this process would. PYTHONPATH would be in the way of the
    # sitecustomize by which pip isolates builds: it fails if its folders are there already.
    code = f"import sys; sys.path[:] = {[*filter(None, sys.path)]}\nimport {__name__} as worker"
    return subprocess.Popen(
        # What cannot be written is kept by this process, which warns of it.
        [sys.executable, "-W", "ignore::RuntimeWarning", "-c", f"{code}; worker.main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # which keeps Ctrl-C from it
    )


def _ask(process: subprocess.Popen[bytes], job: Job) -> Iterator[Answer]:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(messages.pack_job(job))
        process.stdin.flush()
        for _ in job.parts:
            answer = messages.read_answer(process.stdout)
            yield answer
            if isinstance(answer.outcome, KspecError):
                return  # the last one
    except (OSError, EOFError) as error:
        message = f"the compiler's process ended while compiling {job.source.name}"
        raise KspecError(f"{message} for {job.target} ({error!r})") from error


def main() -> None:
    """Serve jobs until the standard input ends."""
    jobs, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever prints must not get between the messages
    cache = ImageCache.configured()
    while (job := messages.read_job(jobs)) is not None:
        for answer in do_job(job, cache):
            try:
                answers.write(messages.pack_answer(answer))
                answers.flush()
            except BrokenPipeError:  # the parent was killed
                os._exit(1)  # an ordinary exit would flush again, and complain
