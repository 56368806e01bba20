from __future__ import annotations

import json

import pytest

from kspec import manifest
from kspec.coverage import Coverage
from kspec.declaration import ElementwiseDeclaration, RawDeclaration, ReductionDeclaration
from kspec.errors import ManifestError
from kspec.launch_rules import LaunchRules
from kspec.manifest import ImageEntry, Manifest, ModuleEntry
from kspec.signature import CParam, Param, Signature
from kspec.stages import Figures

X, Y = Param("T", "x"), Param("float32", "y", raw=True)
KERNELS = (
    ElementwiseDeclaration("e", Signature((X, Y)), Signature((X,)), "Doc.", ordered=True),
    ReductionDeclaration("r", Signature((X,)), Signature((X,)), scalars=("s",), accumulator="A"),
    RawDeclaration("k", ("k<int>",), (CParam("int", "p", pointer=True, const=True),)),
    RawDeclaration("u", ("u",), None),
    RawDeclaration(
        "v",
        ("v",),
        (CParam("int", "n"), CParam("double", "a")),
        rules=LaunchRules(("n", "2"), ("256",), "block.x * 4", (("n", "3"), ("a", 0.5))),
        structs=(("Point", "{x: float32}"),),
        cooperative=True,
    ),
)
IMAGE = ImageEntry(
    "m.fatbin", "00", ("sm_80", "compute_80"), "nvrtc 13.0", {"k<int>": "_Z1k"},
    {"sm_80": {"k<int>": Figures(registers=8)}},
)  # fmt: skip
FULL = Manifest(
    "kernels",
    (
        ModuleEntry("m", "specs/m.toml", "11", KERNELS, ("k<int>",), ("-DA=1",), ("a.cuh",), IMAGE),
        ModuleEntry(
            "n",
            "specs/n.toml",
            "22",
            (),
            coverage={
                "e": Coverage(3, {"T": ("int8", "int16")}, ("Flat, 3",)),
                "r": Coverage(9, ({"T": "int8", "S": "int16"},)),
            },
        ),
    ),
    "never",
)


def test_loading_undoes_dumping() -> None:
    assert manifest.load(manifest.dump(FULL)) == FULL


def test_the_text_is_stable() -> None:
    text = manifest.dump(FULL)
    assert manifest.dump(manifest.load(text)) == text
    assert text.endswith("}\n")


def test_a_manifest_from_before_there_was_coverage() -> None:
    data = json.loads(manifest.dump(FULL))
    del data["jit"]
    for module in data["modules"]:
        del module["coverage"]
    old = manifest.load(json.dumps(data))
    assert old.jit == "auto" and not old.module("n").coverage


def test_modules_are_found_by_stem() -> None:
    assert FULL.module("m").kernels == KERNELS
    with pytest.raises(ManifestError, match="has no module 'z'; run `kspec build`"):
        FULL.module("z")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema": 1}', '{"schema": 1, "package": "p", "modules": [3]}']
)
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match=r"a/manifest\.json is damaged"):
        manifest.load(text, "a/manifest.json")


def test_a_newer_schema_is_refused() -> None:
    data = json.loads(manifest.dump(FULL)) | {"schema": 99}
    with pytest.raises(ManifestError, match="has schema 99, this kspec knows 1: upgrade kspec"):
        manifest.load(json.dumps(data))


def test_an_unknown_kind_is_refused() -> None:
    text = manifest.dump(FULL).replace('"kind": "raw"', '"kind": "mystery"')
    with pytest.raises(ManifestError, match="unknown kind of kernel 'mystery'"):
        manifest.load(text)
