"""The bill of materials of a wheel: what is in it, what that was made of, and by what."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import kspec
from kspec.build.package.bill import Distribution, render_bill
from kspec.build.project import build_project
from tests.projects import SQUARES, write_project, write_specs

CUB = """
[raw.block_sum]
code = '''
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void block_sum(int* x) {
  using Reduce = cub::BlockReduce<int, 32>;
  __shared__ typename Reduce::TempStorage scratch;
  int sum = Reduce(scratch).Sum(static_cast<int>(threadIdx.x));
  if (threadIdx.x == 0) *x = sum;
}
'''
params = ["int* x"]
grid = "1"
block = "32"
"""


def bill_of(folder: Path) -> dict[str, Any]:
    report = build_project(folder)
    text = render_bill(Distribution("Toy_Project", "0.1"), report.plan, report.images, "toy/_k")
    assert text.endswith("}\n")
    return dict(json.loads(text))


def by_ref(bill: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {one["bom-ref"]: one for one in bill["components"]}
    assert len(found) == len(bill["components"])
    return found


def made_of(bill: dict[str, Any]) -> dict[str, list[str]]:
    return {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}


def sha256(component: dict[str, Any]) -> str:
    (only,) = component["hashes"]
    assert only["alg"] == "SHA-256"
    return str(only["content"])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("bill") / "toy", sums=CUB)


@pytest.fixture(scope="module")
def bill(project: Path) -> dict[str, Any]:
    return bill_of(project)


def test_digests_are_those_of_the_files(project: Path, bill: dict[str, Any]) -> None:
    package = project / "generated/toy_kernels"
    found = by_ref(bill)
    files = {
        "specs/squares.toml": project / "specs/squares.toml",
        "toy/_k/squares.cu": package / "squares.cu",
        "toy/_k/squares.square.fatbin": package / "squares.square.fatbin",
        "toy/_k/amount.cuh": package / "amount.cuh",
    }
    for ref, path in files.items():
        assert found[ref]["type"] == "file"
        assert sha256(found[ref]) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_image_says_what_it_was_made_of(bill: dict[str, Any]) -> None:
    image = by_ref(bill)["toy/_k/shifts.shift.fatbin"]
    properties = {one["name"]: one["value"] for one in image["properties"]}
    assert properties["kspec:archs"] == "sm_90 compute_80"
    assert re.fullmatch(r"nvrtc V\d+\.\d+\.\d+ \S+", properties["kspec:compiler"])
    kspecs = f"kspec@{kspec.__version__}"
    assert made_of(bill)["toy/_k/shifts.shift.fatbin"] == [
        "toy/_k/shifts.cu",
        "toy/_k/amount.cuh",
        kspecs,
    ]
    assert made_of(bill)["toy/_k/shifts.cu"] == ["specs/shifts.toml", kspecs]


def test_libraries_of_headers_have_versions_and_licences(bill: dict[str, Any]) -> None:
    found = by_ref(bill)
    (cccl,) = (ref for ref in found if ref.startswith("CCCL@"))
    assert re.fullmatch(r"\d\.\d+\.\d+", found[cccl]["version"])
    assert "Apache-2.0 WITH LLVM-exception" in found[cccl]["licenses"][0]["expression"]
    users = {ref for ref, needs in made_of(bill).items() if cccl in needs}
    assert users == {"pkg:pypi/toy-project@0.1", "toy/_k/sums.block_sum.fatbin"}


def test_a_project_without_such_headers_names_none(tmp_path: Path) -> None:
    bill = bill_of(write_specs(tmp_path / "toy", squares=SQUARES))
    kinds = {ref: one["type"] for ref, one in by_ref(bill).items()}
    assert kinds == {
        "specs/squares.toml": "file",
        "toy/_k/squares.cu": "file",
        "toy/_k/squares.square.fatbin": "file",
        "toy/_k/squares.total.fatbin": "file",
        f"kspec@{kspec.__version__}": "library",
    }


def test_the_head_names_the_project_and_the_tools(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    made = bill["metadata"]["component"]
    assert (made["name"], made["purl"]) == ("Toy_Project", "pkg:pypi/toy-project@0.1")
    tools = [one["name"] for one in bill["metadata"]["tools"]["components"]]
    assert tools == ["kspec", "nvrtc"]
    assert "timestamp" not in bill["metadata"]


def test_serial_numbers_are_of_the_content(project: Path, bill: dict[str, Any]) -> None:
    again = bill_of(project)
    assert again == bill
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{14}4[0-9a-f-]{21}", bill["serialNumber"])
    (project / "specs/amount.cuh").write_text("#define AMOUNT 4\n")
    assert bill_of(project)["serialNumber"] != bill["serialNumber"]
