"""Which compilations a build starts, in which order, and what its processes answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kspec.build import images
from kspec.build.messages import Job
from kspec.build.plan import BuildPlan, Unit
from kspec.build.project import build_project, plan_project
from kspec.build.worker import Workers, do_job
from kspec.compiler import ImageCache, compile_source
from kspec.compiler.family import share
from kspec.errors import KspecError
from kspec.model.stages import CudaSource, Target

SM80, SM90, SM100 = map(Target, ("sm_80", "sm_90", "sm_100"))
PTX80 = Target("compute_80", ptx_isa="8.0")
K = CudaSource("k.cu", 'extern "C" __global__ void k(int* x) { x[0] = 1; }', ("k",))
BROKEN = replace(K, text="broken;")


def started(plan: BuildPlan, *missing: tuple[Unit, Target]) -> list[tuple[str, Target, object]]:
    stems = {id(unit.source): unit.stem for unit in plan.units}
    jobs = images._jobs((unit.source, target) for unit, target in missing)
    return [(stems[id(job.source)], job.target, job.also) for job in jobs]


@pytest.fixture
def plan(toy: Path) -> BuildPlan:
    """Files of one, two and three kernels."""
    text = '[raw.{0}]\ncode = "template <int> __global__ void {0}() {{}}"\nname_expressions = {1}\n'
    for count in (1, 2, 3):
        names = [f"k{count}<{index}>" for index in range(count)]
        (toy / f"specs/of_{count}.toml").write_text(text.format(f"k{count}", names))
    found = plan_project(toy)
    return replace(found, units=tuple(one for one in found.units if one.stem.startswith("of_")))


def test_one_of_each_file_comes_first_and_then_the_largest(plan: BuildPlan) -> None:
    missing = [(unit, target) for target in (SM80, SM90) for unit in plan.units]
    assert [(stem, target) for stem, target, _ in started(plan, *missing)] == [
        ("of_3", SM80),
        ("of_2", SM80),
        ("of_1", SM80),
        ("of_3", SM90),
        ("of_2", SM90),
        ("of_1", SM90),
    ]


def test_ptx_has_no_compilation_of_its_own_where_a_cubin_has_it(plan: BuildPlan) -> None:
    small, middle, _ = plan.units
    missing = [(small, SM90), (small, PTX80), (middle, PTX80), (middle, SM80)]
    assert started(plan, *missing) == [
        ("of_2", SM80, (PTX80,)),
        ("of_1", SM90, ()),
        ("of_1", PTX80, ()),
    ]


def test_a_family_is_optimized_once(plan: BuildPlan) -> None:
    small = plan.units[0]
    targets = share(small.source, [Target("sm_120"), SM80, PTX80, SM90, Target("sm_121"), SM100])
    sm120, sm121 = targets[0], targets[4]
    assert started(plan, *((small, one) for one in targets)) == [
        ("of_1", SM100, (sm120, sm121)),
        ("of_1", SM80, (PTX80,)),
        ("of_1", SM90, ()),
    ]
    assert started(plan, (small, sm120), (small, sm121)) == [("of_1", sm120, (sm121,))]


def test_nvcc_compiles_ptx_by_itself() -> None:
    source = replace(K, name_expressions=(), backend="nvcc")
    jobs = [Job(source, SM80), Job(source, PTX80)]
    assert images._jobs_of(source, (SM80, PTX80)) == jobs


RAW = """
[raw.{name}]
code = '''
{code}
extern "C" __global__ void {name}(int* x) {{ x[0] = {value}; }}
'''
"""


def test_raw_kernels_that_need_each_other_are_compiled_together(toy: Path) -> None:
    kernels = [
        ("counts", "__device__ int count = 3;", "1"),
        ("alone", "__device__ int other;", "x[1]"),
        ("reads", "", "count"),
        ("defines", "#define FOUR 4", "FOUR"),
        ("reads_both", "", "count + FOUR"),
    ]
    text = "".join(RAW.format(name=name, code=code, value=value) for name, code, value in kernels)
    (toy / "specs/of_raw.toml").write_text(text)
    (unit,) = [one for one in plan_project(toy).units if one.stem == "of_raw"]
    assert {one.name: [spec.name for spec in one.specs] for one in unit.groups} == {
        "of_raw.alone": ["alone"],
        "of_raw.counts": ["counts", "reads", "defines", "reads_both"],
    }
    built = build_project(toy).images
    assert set(built["of_raw.counts"].entry.symbols) == {"counts", "reads", "defines", "reads_both"}


@pytest.mark.parametrize("count", [1, 2])
def test_workers(tmp_path: Path, count: int) -> None:
    cache = ImageCache(tmp_path)
    jobs = [Job(K, SM90), Job(K, SM80, (PTX80,))]
    with Workers(count) as workers:
        answers = {job.target: answer for job, answer in workers.run(jobs, cache)}
    made = {target: answer.outcome for target, answer in answers.items()}
    assert made == {target: compile_source(K, target) for target in (SM80, SM90, PTX80)}
    assert all(answer.seconds > 0 for answer in answers.values())


@pytest.mark.parametrize("count", [1, 2])
def test_a_refused_source_has_one_outcome(tmp_path: Path, count: int) -> None:
    with Workers(count) as workers:
        ((job, answer),) = workers.run([Job(BROKEN, SM80, (PTX80,))], ImageCache(tmp_path))
    assert job.target == SM80 and isinstance(answer.outcome, KspecError)
    assert len([*do_job(job, ImageCache(tmp_path))]) == 1
