"""A generated package at run time, made by hand: which image answers, and what is said if none."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kspec_kernels import statistics

from kspec.compiler.cuda.fatbin import make_fatbin
from kspec.compiler.cuda.nvrtc import compile_cuda
from kspec.errors import (
    ArgumentTypeError,
    CompileError,
    DriverError,
    InstanceNotBuilt,
    LoadError,
    ManifestError,
    SpecializationNotBuilt,
    ToolNotFoundError,
)
from kspec.model import manifest
from kspec.model.coverage import Coverage
from kspec.model.declaration import ReductionDeclaration
from kspec.model.manifest import ImageEntry, Manifest, ModuleEntry
from kspec.model.signature import Param, Signature
from kspec.model.stages import CudaSource, RawSymbol, Specialization, Target
from kspec.render import render_file, specializations
from kspec.runtime import driver
from kspec.runtime.driver import module as driver_module
from kspec.runtime.driver.archs import best_arch, fits
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.memory import make_aligned_dtype
from kspec.runtime.modules import packaged
from kspec.runtime.modules.advice import advise
from kspec.runtime.modules.packaged import ImageProvider
from kspec.runtime.package import (
    GeneratedModule,
    given,
    open_module,
    read_manifest,
)
from kspec.spec.loader import load_specs
from tests.projects import ROOT, run_python

SPEC = """
[elementwise.double_it]
inputs = "T x"
outputs = "T y"
operation = "y = 2 * x"
types = { T = ["float32"] }

[elementwise.mixed]
inputs = "X x, Y y, raw float32 w"
outputs = "float64 z"
operation = "z = x + y + w[0]"
types = [{ X = "int8", Y = "float32" }]

[raw.fill]
code = '''
template <class T> __global__ void fill(T* x, T value) { x[threadIdx.x] = value; }
'''
name_expressions = ["fill<float>", "fill<int>"]
params = ["T* x", "T value"]
"""
GPU = Device("cuda", 0)
DOUBLE = Specialization("double_it", (("T", "float32"),))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a package with text and a pretended image for sm_90 and PTX 8.0."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/m.toml").write_text(SPEC)
    spec_file = load_specs(tmp_path / "specs", tmp_path)[0]
    text = render_file(spec_file)
    (tmp_path / "m.cu").write_text(text)
    (tmp_path / "m.fatbin").write_bytes(b"code")
    wanted = [one.name_expression for spec in spec_file.specs for one in specializations(spec)]
    digest = hashlib.sha256(b"code").hexdigest()
    entry = ModuleEntry(
        "m",
        spec_file.path,
        manifest.source_digest(text.encode(), ()),
        tuple(spec.declaration() for spec in spec_file.specs),
        tuple(wanted),
        images=(
            ImageEntry(
                "m.fatbin", digest, ("sm_90", "compute_80"), "", {name: "_Z" for name in wanted}
            ),
        ),
        coverage={
            "double_it": Coverage(6, {"T": ("float32",)}),
            "mixed": Coverage(12, ({"X": "int8", "Y": "float32"},)),
            "fill": Coverage(18, {}),
        },
    )
    (tmp_path / "manifest.json").write_text(manifest.dump(Manifest("made", (entry,))))
    monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))
    monkeypatch.delenv("KSPEC_JIT", raising=False)
    return tmp_path


def entry_of(folder: Path) -> ModuleEntry:
    return read_manifest(folder).module("m")


def open_at(folder: Path) -> GeneratedModule:
    return open_module(str(folder / "m.py"), "m")


def rewrite(folder: Path, text: str) -> None:
    """Write another text, as a build would."""
    (folder / "m.cu").write_text(text)
    index = manifest.load((folder / "manifest.json").read_text())
    digest = manifest.source_digest(text.encode(), ())
    modules = tuple(replace(one, source_sha256=digest) for one in index.modules)
    (folder / "manifest.json").write_text(manifest.dump(replace(index, modules=modules)))
    read_manifest.cache_clear()


def test_numpy_arrays_compile_the_shipped_text_for_the_host(folder: Path) -> None:
    double_it = open_at(folder).elementwise("double_it")
    np.testing.assert_array_equal(double_it(np.arange(3.0)), [0, 2, 4])  # float64: not in `types`
    array = np.zeros(4, np.int32)
    open_at(folder).raw("fill")((1,), (4,), (array, 7))
    assert array.tolist() == [7] * 4


def test_the_image_answers_for_the_gpu(folder: Path) -> None:
    image = ImageProvider(folder, entry_of(folder)).find(DOUBLE, GPU)
    assert image is not None
    assert (image.format, image.arch, image.code) == ("fatbin", "sm_90,compute_80", b"code")


@pytest.mark.parametrize(
    ("wanted", "device"),
    [(Specialization("double_it", (("T", "float64"),)), GPU), (DOUBLE, HOST)],
    ids=["another dtype", "the host"],
)
def test_the_image_does_not_answer(folder: Path, wanted, device: Device) -> None:
    assert ImageProvider(folder, entry_of(folder)).find(wanted, device) is None


def test_always_compiling_ignores_the_image(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_JIT", "always")
    assert ImageProvider(folder, entry_of(folder)).find(DOUBLE, GPU) is None


def test_a_clone_without_images_compiles(folder: Path) -> None:
    (folder / "m.fatbin").unlink()
    assert ImageProvider(folder, entry_of(folder)).find(DOUBLE, GPU) is None


def test_another_image_than_the_manifests_is_refused(folder: Path) -> None:
    (folder / "m.fatbin").write_bytes(b"cod3")
    with pytest.raises(ManifestError, match=r"m\.fatbin is not the image that manifest\.json"):
        ImageProvider(folder, entry_of(folder)).find(DOUBLE, GPU)


def test_never_compiling_says_what_is_there_and_what_to_add(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_JIT", "never")
    with pytest.raises(SpecializationNotBuilt) as caught:
        open_at(folder).elementwise("double_it")(np.arange(3))
    message = str(caught.value)
    assert "no image of double_it<long long, kspec::Flat> for host" in message
    assert "m.fatbin has, for sm_90, compute_80:\n    double_it<float, Flat | " in message
    assert "fill" not in message  # another kernel of the module
    assert "forbidden by KSPEC_JIT=never" in message
    assert "the host device compiles what it runs" in message


MIXED = Specialization("mixed", (("X", "int8"), ("Y", "int64")), "kspec::Rows", (3,))


@pytest.mark.parametrize(
    ("wanted", "advice"),
    [
        (
            replace(DOUBLE, binding=(("T", "int64"),)),
            """\
missing: m.double_it, T = int64, layout 'Flat', sm_90
in specs/m.toml, line 6, [elementwise.double_it], write
    types = { T = ["float32", "int64"] }
then run `kspec build`""",
        ),
        (
            replace(DOUBLE, layout="kspec::Strided<64>"),
            """\
missing: m.double_it, T = float32, layout 'Strided<64>', sm_90
in specs/m.toml, line 6, [elementwise.double_it], write
    layouts = ["Strided<64>"]
then run `kspec build`""",
        ),
        (
            MIXED,
            """\
missing: m.mixed, X = int8, Y = int64, layout 'Rows, 3', sm_90
in specs/m.toml, line 12, [elementwise.mixed], write
    types = [
        { X = "int8", Y = "float32" },
        { X = "int8", Y = "int64" },
    ]
    layouts = ["Rows, 3"]
then run `kspec build`""",
        ),
        (
            RawSymbol("fill<double>", (("T", "float64"),)),
            """\
missing: m.fill, T = float64, sm_90
in specs/m.toml, line 18, [raw.fill], write
    name_expressions = ["fill<float>", "fill<int>", "fill<double>"]
then run `kspec build`""",
        ),
        (
            Specialization("gone"),
            "missing: m.gone<kspec::Flat>, layout 'Flat', sm_90\nsee gone<kspec::Flat> in specs/m.toml",
        ),
    ],
    ids=["dtype", "layout", "several placeholders", "raw", "unknown"],
)
def test_what_to_do_about_a_missing_image(folder: Path, wanted, advice: str) -> None:
    assert advise(folder, entry_of(folder), wanted, GPU) == advice


@pytest.mark.parametrize(
    ("kernel", "form", "forms"),
    [
        ("argmax", "scan", '["reduce", "scan"]'),
        ("total", "by_key", '["reduce", "scan", "segments", "window", "by_key"]'),
        ("histogram", "window", '["reduce", "by_key", "window"]'),
    ],
)
def test_forms_that_the_spec_does_not_declare(kernel: str, form: str, forms: str) -> None:
    function = getattr(statistics, kernel)
    with pytest.raises(AttributeError) as caught:
        getattr(function, form)(np.ones(3))
    head, line, end = str(caught.value).splitlines()
    assert head.startswith(f"{kernel} has no form '{form}'; in specs/statistics.toml, line ")
    assert head.endswith(f", [reduction.{kernel}], write")
    assert (line, end) == (f"    forms = {forms}", "then run `kspec build`")
    assert pickle.loads(pickle.dumps(function)) is not None


class TestAnotherGpu:
    """A GPU that nothing in the package is for."""

    ADVICE = """\
missing: m.double_it, T = float32, layout 'Flat', sm_75
the package has code for sm_90, compute_80, none of which runs on
NVIDIA T4 (sm_75) under a driver for CUDA 12.4; write in pyproject.toml, [tool.kspec]
    archs = ["sm_90", "compute_80", "sm_75"]
then run `kspec build`; or, for this machine alone, `kspec build --arch native`"""

    @pytest.fixture(autouse=True)
    def t4(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (7, 5))
        monkeypatch.setattr(driver, "device_name", lambda ordinal: "NVIDIA T4")
        monkeypatch.setattr(driver, "driver_version", lambda: 12040)

    def test_the_advice(self, folder: Path) -> None:
        assert advise(folder, entry_of(folder), DOUBLE, GPU) == self.ADVICE

    def test_without_compiling(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSPEC_JIT", "never")
        with pytest.raises(SpecializationNotBuilt) as caught:
            open_at(folder).load(DOUBLE, GPU)
        assert str(caught.value).endswith(self.ADVICE)

    def test_without_a_compiler(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
        monkeypatch.delattr("cuda.bindings.nvrtc", raising=False)
        with pytest.raises(ToolNotFoundError) as caught:
            open_at(folder).load(DOUBLE, GPU)
        assert "NVRTC needs cuda-bindings" in str(caught.value)
        assert str(caught.value).endswith(self.ADVICE)


@pytest.mark.parametrize(
    ("name", "version", "text"),
    [
        ("NO_BINARY_FOR_GPU", 13000, "compile it for sm_90, or as PTX for an older architecture"),
        ("UNSUPPORTED_PTX_VERSION", 12040, "newer than the driver: update that, or compile for"),
        ("INVALID_IMAGE", 12040, "sm_90 would run, but it may be damaged, or made by a newer"),
    ],
)
def test_a_driver_that_refuses_the_image(
    folder: Path, name: str, version: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(ordinal: int, code: bytes) -> None:
        raise DriverError(f"CUDA_ERROR_{name}", "the driver's words", 1)

    source = CudaSource("f.cu", 'extern "C" __global__ void f(float* x) { *x = 1; }')
    archs = "sm_80", "sm_90", "compute_80"
    code = make_fatbin([compile_cuda(source, Target(arch)) for arch in archs]).code
    entry = entry_of(folder)
    (folder / "m.fatbin").write_bytes(code)
    digest = hashlib.sha256(code).hexdigest()
    entry = replace(entry, images=(replace(entry.images[0], archs=archs, sha256=digest),))
    monkeypatch.setattr(driver_module, "load", fail)
    monkeypatch.setattr(driver, "device_name", lambda ordinal: "NVIDIA H200")
    monkeypatch.setattr(driver, "driver_version", lambda: version)
    with pytest.raises(LoadError) as caught:
        GeneratedModule(folder, entry).load(DOUBLE, GPU)
    message = str(caught.value)
    assert message.startswith(f"CUDA_ERROR_{name}: the driver's words: a fatbin for sm_80, sm_90")
    release = f"{version // 1000}.{version % 1000 // 10}"
    assert f"on NVIDIA H200 (sm_90) under a driver for CUDA {release}; " in message
    assert text in message and "`kspec build --arch native`" in message


def test_the_advice_is_one_that_the_spec_accepts(folder: Path) -> None:
    lines = advise(folder, entry_of(folder), MIXED, GPU).splitlines()[2:-1]
    text = SPEC.replace('types = [{ X = "int8", Y = "float32" }]', "\n".join(lines))
    (folder / "specs/m.toml").write_text(text)
    specs = {spec.name: spec for spec in load_specs(folder / "specs", folder)[0].specs}
    assert MIXED in specializations(specs["mixed"])


def test_a_package_that_was_not_compiled_says_so(folder: Path) -> None:
    (folder / "m.fatbin").unlink()
    advice = advise(folder, entry_of(folder), DOUBLE, GPU)
    assert advice.endswith("\nthe package was not compiled: run `kspec build`")


def test_images_of_other_kernels_are_not_read(folder: Path) -> None:
    entry = entry_of(folder)
    (image,) = entry.images
    halves = [
        {
            name: symbol
            for name, symbol in image.symbols.items()
            if name.startswith("double_it") is own
        }
        for own in (True, False)
    ]
    own, other = (replace(image, symbols=half) for half in halves)
    module = GeneratedModule(
        folder, replace(entry, images=(replace(other, file="m.mixed.fatbin", sha256="00"), own))
    )
    found = module.shipped(DOUBLE, GPU)
    assert found is not None and found.symbols == own.symbols
    assert module.shipped(DOUBLE, GPU) is found
    assert module.shipped(RawSymbol(next(iter(other.symbols))), GPU) is None, "its file is missing"


def test_a_package_older_than_its_manifest_says_so(folder: Path) -> None:
    entry = entry_of(folder)
    entry = replace(entry, images=(replace(entry.images[0], symbols={}),))
    advice = advise(folder, entry, DOUBLE, GPU)
    assert advice.endswith("declares it, so the package is older: run `kspec build`")


class TestThePackageForbidsCompiling:
    @pytest.fixture
    def module(self, folder: Path) -> GeneratedModule:
        path = folder / "manifest.json"
        path.write_text(manifest.dump(replace(manifest.load(path.read_text()), jit="never")))
        return open_at(folder)

    def test_a_call_that_is_not_covered(self, module: GeneratedModule) -> None:
        assert not module.compiles
        with pytest.raises(SpecializationNotBuilt, match=r"forbidden by the package: jit = "):
            module.elementwise("double_it")(np.arange(3.0))

    def test_the_environment_goes_first(
        self, module: GeneratedModule, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KSPEC_JIT", "auto")
        assert module.compiles
        assert module.elementwise("double_it")(np.arange(3.0)).tolist() == [0, 2, 4]

    def test_it_may_be_pickled(self, module: GeneratedModule) -> None:
        kernel = pickle.loads(pickle.dumps(module.elementwise("double_it")))
        with pytest.raises(SpecializationNotBuilt, match="forbidden by the package"):
            kernel(np.arange(3.0))


@pytest.mark.parametrize("mode", ["auto", "never"])
def test_a_missing_instance_of_a_raw_kernel(
    folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_JIT", mode)
    with pytest.raises(InstanceNotBuilt, match=r"no instance for T=float64; it has fill<float>"):
        open_at(folder).raw("fill")((1,), (4,), (np.zeros(4), 7))
    assert issubclass(InstanceNotBuilt, ArgumentTypeError)
    assert issubclass(InstanceNotBuilt, SpecializationNotBuilt)


def test_what_to_do_about_a_missing_instance_on_the_host(folder: Path) -> None:
    """The host device compiles what it runs, but only what is listed."""
    wanted = RawSymbol("fill<double>", (("T", "float64"),))
    assert advise(folder, entry_of(folder), wanted, HOST).endswith(
        'name_expressions = ["fill<float>", "fill<int>", "fill<double>"]\nthen run `kspec build`'
    )


def test_a_reduction_that_is_not_covered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(folder)
    declaration = ReductionDeclaration(
        "sum", Signature((Param("T", "x"),)), Signature((Param("T", "y"),))
    )
    entry = replace(entry, kernels=(*entry.kernels, declaration))
    wanted = Specialization("sum", (("T", "int8"),), "kspec::Lines")
    assert '[reduction.sum], write\n    types = { T = ["int8"] }\nthen' in advise(
        folder, entry, wanted, GPU
    )


def test_a_missing_manifest_or_kernel(folder: Path, tmp_path_factory) -> None:
    with pytest.raises(ManifestError, match="run `kspec build`"):
        read_manifest(tmp_path_factory.mktemp("empty"))
    with pytest.raises(ManifestError, match="no such kernel 'nothing'"):
        open_at(folder).elementwise("nothing")
    with pytest.raises(ManifestError, match="no such kernel 'fill'"):
        open_at(folder).reduction("fill")


@pytest.mark.parametrize(
    ("archs", "capability", "best"),
    [
        (("sm_80", "sm_86", "compute_80"), (8, 9), "sm_86"),
        (("sm_90a", "sm_90", "compute_90"), (9, 0), "sm_90a"),
        (("sm_100", "sm_100f", "sm_103"), (10, 3), "sm_103"),
        (("sm_100", "sm_100f"), (10, 3), "sm_100f"),
        (("compute_80", "compute_90", "sm_80"), (12, 0), "compute_90"),
        (("compute_100f", "compute_90"), (11, 0), "compute_90"),
        (("sm_100f", "sm_120f"), (12, 1), "sm_120f"),
        (("sm_90a", "compute_100"), (9, 1), None),
        ((), (9, 0), None),
        (("nonsense",), (9, 0), None),
    ],
)
def test_the_best_of_an_image(archs, capability, best: str | None) -> None:
    assert best_arch(archs, capability) == best


@pytest.mark.parametrize(
    ("archs", "capability", "want"),
    [
        (("sm_80",), (8, 0), True),
        (("sm_80",), (8, 9), True),
        (("sm_86",), (8, 0), False),
        (("sm_80",), (9, 0), False),
        (("sm_80", "compute_80"), (9, 0), True),
        (("compute_90",), (8, 0), False),
        (("compute_80",), (12, 0), True),
        (("sm_90a",), (9, 0), True),
        (("sm_90a",), (9, 1), False),
        (("compute_90a",), (9, 0), True),
        (("compute_90a",), (10, 0), False),
        (("sm_100f",), (10, 3), True),
        (("sm_100f",), (11, 0), False),
        (("sm_120",), (12, 1), True),
    ],
)
def test_which_images_fit_which_device(archs, capability, want: bool) -> None:
    assert fits(archs, capability) is want


def test_outputs_are_given_together() -> None:
    assert given(None, None) == ()
    assert given(1, 2) == (1, 2)
    with pytest.raises(ArgumentTypeError, match="give all outputs or none"):
        given(None, 2)


@pytest.mark.parametrize("dtype", ["float16", "complex64", "int8"])
def test_types_that_the_shipped_text_was_not_written_for(folder: Path, dtype: str) -> None:
    text = (folder / "m.cu").read_text()
    assert "half.cuh" not in text and "complex.cuh" not in text
    x = np.arange(3).astype(dtype)
    result = open_at(folder).elementwise("double_it")(x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, x + x)


def test_added_headers_leave_the_lines_where_they_are(folder: Path) -> None:
    text = (folder / "m.cu").read_text() + "#error here\n"
    rewrite(folder, text)
    line = text.count("\n")
    with pytest.raises(CompileError, match=rf"m\.cu[:(]{line}\b"):
        open_at(folder).elementwise("double_it")(np.ones(3, np.float16))


def test_a_package_in_an_archive(folder: Path, tmp_path: Path) -> None:
    """Python imports modules from it, but there is nothing to build."""
    archive = tmp_path / "made.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("manifest.json", "m.cu"):
            file.write(folder / name, f"made/{name}")
    with pytest.raises(ManifestError, match=r"made\.zip is an archive, .* or unpack the archive"):
        open_module(str(archive / "made/m.py"), "m")


@pytest.mark.parametrize("name", ["m.fatbin", "m.cu"])
def test_a_file_that_may_not_be_read(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = packaged.read_regular

    def refuse(path: Path) -> bytes:
        if path.name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path)

    module = open_at(folder)
    monkeypatch.setattr(packaged, "read_regular", refuse)
    with pytest.raises(ManifestError, match=rf"{name} cannot be read: Permission denied; see who"):
        module.shipped(DOUBLE, GPU) if name == "m.fatbin" else module.source(DOUBLE)


def test_structs_that_the_shipped_text_was_not_written_for(folder: Path) -> None:
    dtype = np.dtype([("x", "f4"), ("z", "c8")], align=True)
    with pytest.raises(CompileError, match=r"specs/m\.toml[:(]5\b"):  # a struct times 2
        open_at(folder).elementwise("double_it")(np.zeros(3, make_aligned_dtype(dtype)))
    text = (folder / "m.cu").read_text()
    rewrite(folder, text.replace("y = 2 * x", "y = x; y.x *= 2"))
    x = np.ones(3, make_aligned_dtype(dtype))
    result = open_at(folder).elementwise("double_it")(x)
    np.testing.assert_array_equal(result["x"], [2, 2, 2])
    np.testing.assert_array_equal(result["z"], x["z"])


SHARING = """
[raw.keep]
code = '''
__device__ int kept = 1;
extern "C" __global__ void keep(int value) { kept = value; }
extern "C" __global__ void tell(int* x) { x[0] = kept; }
template <class T> __global__ void odd(T* x) { x->nothing(); }
'''
params = ["int value"]

[raw.tell]
code = '''
__device__ int kept = 1;
extern "C" __global__ void keep(int value) { kept = value; }
extern "C" __global__ void tell(int* x) { x[0] = kept; }
template <class T> __global__ void odd(T* x) { x->nothing(); }
'''
params = ["int* x"]
"""


@pytest.mark.parametrize("broken", [False, True])
def test_raw_kernels_that_are_compiled_share_their_variables(tmp_path: Path, broken: bool) -> None:
    """As they do in the image; unless one that does not compile is in the way."""
    spec = tmp_path / "m.toml"
    text = SHARING
    if broken:
        text += "\n[raw.odd]\n" + SHARING.split("[raw.tell]\n")[1].rpartition("params")[0]
        text += 'name_expressions = ["odd<int>"]\n'
    spec.write_text(text)
    spec_file = load_specs(tmp_path, tmp_path)[0]
    text = render_file(spec_file)
    (tmp_path / "m.cu").write_text(text)
    kernels = tuple(one.declaration() for one in spec_file.specs)
    digest = manifest.source_digest(text.encode(), ())
    entry = ModuleEntry("m", spec_file.path, digest, kernels)
    (tmp_path / "manifest.json").write_text(manifest.dump(Manifest("made", (entry,))))
    module = open_at(tmp_path)
    module.raw("keep")((1,), (1,), (7,))
    x = np.zeros(1, np.int32)
    module.raw("tell")((1,), (1,), (x,))
    assert x[0] == (1 if broken else 7)


@pytest.mark.parametrize(
    ("module", "kinds"),
    [
        ("linear", ["kernels.elementwise"]),
        ("pairs", ["kernels.reduction"]),
        ("raw", ["raw.declared"]),
        ("complex", ["kernels.elementwise", "raw.declared"]),
    ],
)
def test_a_module_imports_the_kinds_of_kernels_that_it_has(module: str, kinds: list[str]) -> None:
    found = run_python(
        f"import sys, kspec_kernels.{module}\n"
        'for one in ("kernels.elementwise", "kernels.reduction", "raw.declared"):\n'
        '    if f"kspec.runtime.{one}" in sys.modules: print(one)',
        ROOT,
        ROOT / "generated",
    )
    assert found.split() == kinds
