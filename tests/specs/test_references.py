"""The shipped kernels agree with their references, wherever ``kspec test`` looks."""

from __future__ import annotations

import kspec_kernels
import pytest

from kspec.build.project import plan_project
from kspec.build.properties.forms import comparable_forms
from kspec.build.properties.runner import Subject, subjects
from kspec.build.properties.runner import test_kernel as check_kernel
from kspec.model.forms.kinds import REDUCE
from kspec.runtime.driver.device import Device, parse_device
from tests.projects import ROOT

NAMES = [
    spec.name if form == REDUCE else f"{spec.name}.{form}"
    for spec in plan_project(ROOT).specs
    for form in comparable_forms(spec)
    if spec.reference
]


@pytest.fixture(scope="module")
def kernels() -> dict[str, Subject]:
    found = subjects(plan_project(ROOT), kspec_kernels)
    return {one.name.partition(".")[2]: one for one in found}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["host", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", NAMES)
def test_reference(name: str, place: str, kernels: dict[str, Subject]) -> None:
    device: Device = parse_device(place)
    outcome = check_kernel(kernels[name], device, count=10)
    assert not outcome.problem, outcome.reproducer or outcome.problem
    assert outcome.examples
