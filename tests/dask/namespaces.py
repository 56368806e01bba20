"""Dask over several network namespaces, which act as hosts: ``python -m tests.dask.namespaces``.

Needs root, on Linux.  Each host has a network and a kernel cache of its own, and runs one worker; the
first one also has the scheduler and the client.  Between them is nothing but Ethernet.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.projects import ROOT

PORT = 8786
CLIENT = """
import sys
import dask.array as da, distributed, numpy as np
import kspec, kspec.dask
from kspec_kernels import norms, statistics

declared = kspec.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "of_all_hosts")
address, hosts = sys.argv[1], int(sys.argv[2])
with distributed.Client(address, timeout=60) as client:
    client.wait_for_workers(hosts, timeout=60)
    networks = {worker.rpartition(":")[0] for worker in client.scheduler_info()["workers"]}
    assert len(networks) == hosts, networks
    values = np.random.default_rng(0).random((4000, 300))
    x = da.from_array(values, chunks=(100, 150))
    np.testing.assert_allclose(
        kspec.dask.apply(norms.l2norm, x, axis=0).compute(), np.linalg.norm(values, axis=0)
    )
    _, variance = kspec.dask.apply(statistics.mean_var, x, 1.0, axis=1)
    np.testing.assert_allclose(variance.compute(), values.var(1, ddof=1))
    assert kspec.dask.apply(declared, x).compute() == values.max()
print("computed on", *sorted(networks))
"""


def why_impossible() -> str:
    """Return why namespaces cannot be made here, or an empty string."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root, on Linux"
    name = f"kspec{os.getpid()}"
    try:
        _ip("netns", "add", name)
        try:
            _ip("-n", name, "link", "add", "bridge", "type", "bridge")
        finally:
            _ip("netns", "del", name)
    except FileNotFoundError:
        return "needs the command ip"
    except subprocess.CalledProcessError as error:
        return f"ip: {error.stderr.strip()}"
    return ""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@contextmanager
def hosts(count: int) -> Iterator[list[tuple[str, str]]]:
    """Make namespaces on one network; yield the name and the address of each."""
    made = [(f"kspec{os.getpid()}n{k}", f"10.77.0.{k + 1}") for k in range(count)]
    with ExitStack() as stack:
        for name, _ in made:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            _ip("-n", name, "link", "set", "lo", "up")
        first, address = made[0]
        _ip("-n", first, "link", "add", "bridge", "type", "bridge")
        _ip("-n", first, "addr", "add", f"{address}/24", "dev", "bridge")
        _ip("-n", first, "link", "set", "bridge", "up")
        for number, (name, address) in enumerate(made[1:]):
            port = f"port{number}"
            pair = ["type", "veth", "peer", "name", "eth", "netns", name]
            _ip("-n", first, "link", "add", port, *pair)
            _ip("-n", first, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth")
            _ip("-n", name, "link", "set", "eth", "up")
        yield made


def run(count: int, folder: Path) -> str:
    """Compute on so many hosts; return what the client says."""
    path = os.pathsep.join(map(str, (ROOT, ROOT / "generated")))
    with hosts(count) as made, ExitStack() as stack:

        def start(number: int, *words: str) -> subprocess.Popen[str]:
            name, _ = made[number]
            environment = {
                **os.environ,
                "PYTHONPATH": path,
                "KSPEC_CACHE_DIR": str(folder / f"cache{number}"),
                "DASK_TEMPORARY_DIRECTORY": str(folder / f"work{number}"),
            }
            command = ["ip", "netns", "exec", name, sys.executable, *words]
            process = subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(_end, process)
            return process

        address = f"tcp://{made[0][1]}:{PORT}"
        where = ["--host", made[0][1], "--port", str(PORT), "--no-dashboard"]
        start(0, "-m", "distributed.cli.dask_scheduler", *where)
        time.sleep(2)
        for number, (_, own) in enumerate(made):
            here = [address, "--host", own, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            start(number, "-m", "distributed.cli.dask_worker", *here)
        said, _ = start(0, "-c", CLIENT, address, str(count)).communicate(timeout=300)
        return said


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    reason = why_impossible()
    if reason:
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as name:
        print(run(3, Path(name)))
