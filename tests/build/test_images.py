"""Images and fatbins from the processes of a build."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.build.messages import Job, Members
from kspec.build.worker import Workers
from kspec.compiler import ImageCache, compile_source
from kspec.compiler.cuda.fatbin import make_fatbin
from kspec.errors import LoadError
from kspec.model.stages import CudaSource, Target

SM80, SM90 = Target("sm_80"), Target("sm_90")
K = CudaSource("k.cu", 'extern "C" __global__ void k(int* x) { x[0] = 1; }', ("k",))


@pytest.mark.parametrize("count", [1, 2])
def test_workers(tmp_path: Path, count: int) -> None:
    cache = ImageCache(tmp_path)
    jobs = [Job(K, SM90), Job(K, SM80)]
    with Workers(count) as workers:
        made = {job.target: outcome for job, outcome in workers.run(jobs, cache)}
        assert made == {target: compile_source(K, target) for target in (SM80, SM90)}
        members = Members((made[SM80], made[SM90])), Members((made[SM90],))
        fatbins = list(workers.join(members, cache))
        assert fatbins == [make_fatbin(one.images) for one in members]
        with pytest.raises(LoadError, match="sm_90 came twice"):
            list(workers.join([Members((made[SM90], made[SM90]))], cache))
