"""A process that compiles, or makes fatbins: jobs in by its standard input, outcomes out.

NVRTC serialises inside one process, so `kspec.build.images` starts a few of these.  They are
plain subprocesses and not a `multiprocessing` pool because that runs the caller's ``__main__``
again, which a build hook, a notebook or ``python -`` cannot offer.  A worker ends when its
standard input does, so none outlives a build that was killed.

::

    with Workers(2) as workers:
        for job, outcome in workers.run([Job(source, Target("sm_90"))], cache): ...
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from queue import SimpleQueue
from types import TracebackType

from kspec.build import messages
from kspec.build.messages import Job, Members, Outcome
from kspec.compiler import ImageCache, compile_source, image_key
from kspec.compiler.cuda.fatbin import make_fatbin
from kspec.errors import KspecError
from kspec.model.stages import Image


def do_job(job: Job | Members, cache: ImageCache) -> Iterator[Outcome]:
    """Yield the image of a fatbin, or of each of `Job.parts`; an error is the last."""
    try:
        if isinstance(job, Members):
            yield make_fatbin(job.images)
        for part in _parts(job):
            yield compile_source(part.source, part.target, cache, part.also)
    except KspecError as error:
        yield error


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

    def run(self, jobs: Sequence[Job], cache: ImageCache) -> Iterator[tuple[Job, Outcome]]:
        """Compile the jobs and yield each with its outcome, as they finish.

        Processes have caches of their own, where the environment says; `cache` is for this one. It
        gets the images that they could not write, with one warning for all of them.

        After a source was refused, its other jobs are left out as far as they wait.
        """
        futures = {self._threads.submit(self._one, job, cache): job for job in jobs}
        for future in as_completed(futures):
            if future.cancelled():
                continue
            job = futures[future]
            for part, outcome in zip(job.parts, future.result(), strict=False):
                if isinstance(outcome, KspecError):
                    for other, waiting in futures.items():
                        if waiting.source is job.source:
                            other.cancel()
                yield part, outcome

    def join(self, groups: Sequence[Members], cache: ImageCache) -> Iterator[Image]:
        """Yield the fatbin of each group of images, in order.

        Compressing them takes a second for 2 MB, and nvFatbin, as NVRTC, does one thing at a time.
        """
        for (outcome,) in self._threads.map(lambda group: self._one(group, cache), groups):
            if isinstance(outcome, KspecError):
                raise outcome
            yield outcome

    def _one(self, job: Job | Members, cache: ImageCache) -> list[Outcome]:
        process = self._idle.get()
        try:
            if process is None:
                return [*do_job(job, cache)]
            outcomes = [*_ask(process, job)]
            for part, outcome in zip(_parts(job), outcomes, strict=False):
                if isinstance(outcome, Image):
                    _keep(cache, part, outcome)
            return outcomes
        finally:
            self._idle.put(process)


def _parts(job: Job | Members) -> tuple[Job, ...]:
    """Return the compilations of a job, one for each image that the cache is given."""
    return job.parts if isinstance(job, Job) else ()


def _keep(cache: ImageCache, job: Job, image: Image) -> None:
    """Keep an image that is in no file of the cache, which says why."""
    key = image_key(job.source, job.target)
    if not cache.is_stored(key):
        cache.put(key, image)


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


def _ask(process: subprocess.Popen[bytes], job: Job | Members) -> Iterator[Outcome]:
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(messages.pack_job(job))
        process.stdin.flush()
        for _ in _parts(job) or (job,):
            outcome = messages.read_outcome(process.stdout)
            yield outcome
            if isinstance(outcome, KspecError):
                return  # the last one
    except (OSError, EOFError) as error:
        if isinstance(job, Members):
            made = "the compiler's process ended while making a fatbin"
            raise KspecError(f"{made} ({error!r})") from error
        message = f"the compiler's process ended while compiling {job.source.name}"
        raise KspecError(f"{message} for {job.target} ({error!r})") from error


def main() -> None:
    """Serve jobs until the standard input ends."""
    jobs, outcomes = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever prints must not get between the messages
    cache = ImageCache.configured()
    while (job := messages.read_job(jobs)) is not None:
        for outcome in do_job(job, cache):
            try:
                outcomes.write(messages.pack_outcome(outcome))
                outcomes.flush()
            except BrokenPipeError:  # the parent was killed
                os._exit(1)  # an ordinary exit would flush again, and complain
