from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from kspec.errors import ManifestError
from kspec.model import manifest
from kspec.model.coverage import Coverage
from kspec.model.declaration import ElementwiseDeclaration, RawDeclaration, ReductionDeclaration
from kspec.model.manifest import ImageEntry, Index, Manifest, ModuleEntry
from kspec.model.neighbours.samples import Sample
from kspec.model.neighbours.windows import Window
from kspec.model.raw.launch_rules import LaunchRules
from kspec.model.signature import CParam, Param, Signature
from kspec.model.stages import Figures

X, Y = Param("T", "x"), Param("float32", "y", raw=True)
KERNELS = (
    ElementwiseDeclaration("e", Signature((X, Y)), Signature((X,)), "Doc.", ordered=True),
    ElementwiseDeclaration(
        "w",
        Signature((X, Y)),
        Signature((X,)),
        windows=(Window("x", ((1, "R"), (0, 2)), ("wrap", "valid"), 1.5, computed=True),),
        sizes=(("R", (1, 2)), ("N", ())),
        samples=(Sample("y", 3, ("mirror", "constant"), 2, axes=2),),
    ),
    ReductionDeclaration("r", Signature((X,)), Signature((X,)), scalars=("s",), accumulator="A"),
    ReductionDeclaration("c", Signature((X,)), Signature((X,)), indexed=False, counts=True),
    ReductionDeclaration("f", Signature((X,)), Signature((X,)), forms=("scan",), sums="elements"),
    ReductionDeclaration(
        "v", Signature((X,)), Signature((X,)), raw_views=("x",), indexers=("_in_ind", "_out_ind")
    ),
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
    RawDeclaration(
        "w",
        ("w<float, 4>",),
        (CParam("T", "x", pointer=True), CParam("float", "y", pointer=True)),
        rules=LaunchRules(
            ("1",),
            ("N",),
            returns=(("y", ("x.size", "N")),),
            fixed=("grid", "block"),
            template=("T", "N"),
        ),
    ),
)
IMAGE = ImageEntry(
    "m.fatbin", "00", ("sm_80", "compute_80"), "nvrtc 13.0", {"k<int>": "_Z1k"},
    {"sm_80": {"k<int>": Figures(registers=8)}},
)  # fmt: skip
FULL = Manifest(
    "kernels",
    (
        ModuleEntry(
            "m", "specs/m.toml", "11", KERNELS, ("k<int>",), ("-DA=1",), ("a.cuh",), (IMAGE,)
        ),
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


def test_modules_are_found_by_stem() -> None:
    assert FULL.module("m").kernels == KERNELS
    with pytest.raises(ManifestError, match="has no module 'z'; run `kspec build`"):
        FULL.module("z")


class TestIndex:
    """A module is read when it is asked for, and no other."""

    def test_modules_are_those_of_the_manifest(self) -> None:
        index = Index(manifest.dump(FULL))
        assert index.stems == tuple(one.stem for one in FULL.modules)
        assert tuple(map(index.module, index.stems)) == FULL.modules
        assert (index.package, index.jit) == (FULL.package, FULL.jit)

    def test_a_module_is_read_once(self) -> None:
        index = Index(manifest.dump(FULL))
        assert index.module("m") is index.module("m")

    def test_a_missing_module_is_named(self) -> None:
        with pytest.raises(ManifestError, match="package kernels has no module 'z'; run `kspec b"):
            Index(manifest.dump(FULL)).module("z")

    def test_only_the_damaged_module_cannot_be_read(self) -> None:
        other = replace(FULL.modules[0], stem="other", kernels=())
        text = manifest.dump(replace(FULL, modules=(*FULL.modules, other)))
        index = Index(sealed(text.replace('"kernels": []', '"kernels": 5')), "a/manifest.json")
        assert index.module("m") == FULL.modules[0]
        with pytest.raises(ManifestError, match=r"a/manifest\.json is damaged \(TypeError"):
            index.module("other")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "[" * 100_000, '{"schema": 4}', '{"schema": "2"}']
)
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match=r"a/manifest\.json is damaged"):
        manifest.load(text, "a/manifest.json")


@pytest.mark.parametrize(("schema", "advice"), [(99, "upgrade kspec"), (1, "run `kspec build`")])
def test_another_schema_is_refused(schema: int, advice: str) -> None:
    data = json.loads(manifest.dump(FULL)) | {"schema": schema}
    with pytest.raises(ManifestError, match=f"has schema {schema}, this kspec knows 4: {advice}"):
        manifest.load(json.dumps(data))


def test_every_change_is_noticed() -> None:
    text = manifest.dump(FULL)
    data = text.encode()
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        with pytest.raises((ManifestError, UnicodeDecodeError)):
            manifest.load(changed.decode())
    for end in range(len(data) - 1):
        with pytest.raises(ManifestError):
            manifest.load(data[:end].decode())


def test_what_is_not_a_digest_is_refused() -> None:
    data = json.loads(manifest.dump(FULL))
    for seal in ("", None, 5):
        with pytest.raises(ManifestError, match="its sha256 differs"):
            manifest.load(json.dumps(data | {"sha256": seal}, indent=1))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ManifestError, match="unknown kind of kernel 'mystery'"):
        manifest.load(sealed(manifest.dump(FULL).replace('"kind": "raw"', '"kind": "mystery"')))


@pytest.mark.parametrize(
    ("value", "other"),
    [('"kernels": [', '"kernels": 5, "x": ['), ('"archs": [', '"archs": null, "x": [')],
)
def test_what_another_program_wrote_is_refused(value: str, other: str) -> None:
    with pytest.raises(ManifestError, match="is damaged"):
        manifest.load(sealed(manifest.dump(FULL).replace(value, other)))


def test_headers_are_known_of_any_schema() -> None:
    text = manifest.dump(FULL)
    assert manifest.shipped_headers(text) == {"a.cuh"}
    assert manifest.shipped_headers(text.replace('"schema": 4', '"schema": 1')) == {"a.cuh"}
    for damaged in ("", "[]", "{", '{"modules": [3]}', text[:-10]):
        assert manifest.shipped_headers(damaged) == frozenset()


def sealed(text: str) -> str:
    """Return a manifest with the digest that belongs to it."""
    before, between, _ = text.rpartition(',\n "sha256": "')
    return f'{before}{between}{hashlib.sha256(before.encode()).hexdigest()}"\n}}\n'


def test_rules_of_most_raw_kernels_are_short() -> None:
    (entry, *_) = json.loads(manifest.dump(FULL))["modules"]
    rules = {one["name"]: one.get("rules") for one in entry["kernels"] if one["kind"] == "raw"}
    assert rules["k"] is None and rules["u"] is None
    assert set(rules["v"]) == {"grid", "block", "shared_mem", "defaults"}
    assert rules["w"]["returns"] == [["y", ["x.size", "N"]]]
    assert (rules["w"]["fixed"], rules["w"]["template"]) == (["grid", "block"], ["T", "N"])
