"""Dask with processes: kernels are found there by their names, and killed workers lose nothing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from kspec_kernels import norms, statistics, stencils  # noqa: E402

import kspec.dask  # noqa: E402
from tests.dask.cluster import BLOCK, block_of, make_block  # noqa: E402
from tests.projects import ROOT  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # those of distributed, at its end
]
SQUARES = kspec.ReductionKernel(
    "T x", "T y", "x * x + 0", "a + b", "y = sqrt(a)", "0", "dask_cluster_l2norm"
)

SMOOTH = kspec.ElementwiseKernel(
    "T u",
    "T v",
    "v = (u(-1, 0) + u(0, 2)) / 2",
    "dask_cluster_smooth",
    windows={"u": {"reach": [[1, 0], [0, 2]], "boundary": ["nearest", "valid"]}},
)


@pytest.fixture(autouse=True)
def workers_find_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, ROOT / "generated"))))
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def cluster(workers: int, memory: str = "1GB") -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=memory,
        dashboard_address=None,
    )


class TestProcesses:
    @pytest.fixture(scope="class")
    def client(self) -> Iterator[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, ROOT / "generated"))))
            with cluster(2) as local, distributed.Client(local) as client:
                yield client

    def test_packaged_and_declared_kernels(self, client: Any) -> None:
        values = np.random.default_rng(0).random((60, 50))
        x = da.from_array(values, chunks=(7, 11))
        for kernel in (norms.l2norm, SQUARES):
            for axis in (None, 0, 1):
                got = kspec.dask.apply(kernel, x, axis=axis).compute()
                np.testing.assert_allclose(got, np.sqrt((values**2).sum(axis)), rtol=1e-12)
        mean, variance = kspec.dask.apply(statistics.mean_var, x, 1.0, axis=0)
        np.testing.assert_allclose(mean.compute(), values.mean(0))
        np.testing.assert_allclose(variance.compute(), values.var(0, ddof=1))

    def test_halos_travel_between_processes(self, client: Any) -> None:
        u = np.random.default_rng(1).random((40, 50))
        x = da.from_array(u, chunks=(11, 17))
        for kernel, boundary in ((stencils.laplacian, "wrap"), (SMOOTH, "valid")):
            args = (0.5,) if kernel is stencils.laplacian else ()
            got = kspec.dask.apply(kernel, x, *args, boundary=boundary).compute()
            assert got.tobytes() == kernel(u, *args, boundary=boundary).tobytes()

    def test_the_same_kernel_is_loaded_once_in_each_process(self, client: Any) -> None:
        def loaded(number: int) -> tuple[int, int]:
            from kspec.runtime.kernels.identity import _DECLARED

            return os.getpid(), len(_DECLARED.keys())

        x = da.ones((40, 40), chunks=10)
        before = dict(client.run(loaded, 0).values())
        for _ in range(3):
            kspec.dask.apply(SQUARES, x).compute()
        after = dict(client.run(loaded, 0).values())
        assert all(count - before[pid] <= 1 for pid, count in after.items())

    def test_a_worker_without_the_package(self, client: Any, tmp_path: Path) -> None:
        with package(tmp_path, "only_here_kernels") as name:
            kernels = __import__(f"{name}.norms", fromlist=["norms"])
            y = kspec.dask.apply(kernels.l2norm, da.ones(10, chunks=5))
            with pytest.raises(
                kspec.LoadError, match=r"l2norm is a kernel of only_here_kernels\.norms"
            ):
                y.compute()

    def test_a_worker_with_another_version(self, client: Any, tmp_path: Path) -> None:
        with package(tmp_path, "two_versions_kernels") as name:
            kernels = __import__(f"{name}.norms", fromlist=["norms"])
            y = kspec.dask.apply(kernels.l2norm, da.ones(10, chunks=5))
            other = tmp_path / "other"
            shutil.copytree(tmp_path / name, other / name)
            change(other / name)
            client.run(sys_path, str(other))
            try:
                with pytest.raises(
                    kspec.LoadError, match=r"two_versions_kernels\.norms\.l2norm is another version"
                ):
                    y.compute()
            finally:
                client.run(sys_path, str(other), True)


def sys_path(folder: str, remove: bool = False) -> None:
    """Change where a worker finds packages."""
    if remove:
        sys.path.remove(folder)
    else:
        sys.path.insert(0, folder)


class package:
    """A copy of the generated package under another name, which this process can import."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    def __enter__(self) -> str:
        shutil.copytree(ROOT / "generated" / "kspec_kernels", self.folder / self.name)
        sys.path.insert(0, str(self.folder))
        return self.name

    def __exit__(self, *_: object) -> None:
        sys.path.remove(str(self.folder))
        for name in [one for one in sys.modules if one.partition(".")[0] == self.name]:
            del sys.modules[name]


def change(folder: Path) -> None:
    """Give a package another source."""
    from dataclasses import replace

    from kspec.model import manifest

    path = folder / manifest.FILE_NAME
    index = manifest.load(path.read_text())
    modules = tuple(replace(one, source_sha256="0" * 64) for one in index.modules)
    path.write_text(manifest.dump(replace(index, modules=modules)))


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """The norm of an array that no worker has the memory for, of whom one is killed midway."""
    blocks, limit = 72, 512 << 20
    marks = tmp_path / "marks"
    marks.mkdir()
    with cluster(4, f"{limit}B") as local, distributed.Client(local) as client:
        x = da.map_blocks(
            make_block,
            str(marks),
            chunks=((BLOCK,) * blocks,),
            dtype="float64",
            meta=np.empty(0),
        )
        assert x.nbytes > limit
        y = client.compute(kspec.dask.apply(norms.l2norm, x))
        end = time.monotonic() + 300
        while len(list(marks.iterdir())) < blocks // 3 and time.monotonic() < end:
            time.sleep(0.01)
        victim = local.workers[0].process.pid
        os.kill(victim, signal.SIGKILL)
        assert not y.done()
        result = y.result(timeout=300)
    made = [path.name.partition("-")[0] for path in marks.iterdir()]
    assert len(set(made)) == blocks < len(made)  # some of what was lost was made again
    squares = sum(np.square(block_of(number)).sum() for number in range(blocks))
    np.testing.assert_allclose(result, np.sqrt(squares), rtol=1e-12)
