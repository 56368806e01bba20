"""Raw kernels whose parameters are structs that a spec declares, textures or surfaces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import texture
from kspec.compiler import compile_source
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.model.stages import CudaSource, Target
from kspec.render import render_file
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, OneSource
from kspec.runtime.raw.declared import RawCallable
from kspec.spec.loader import load_spec_file
from tests.devices import ArrayDevice
from tests.runtime.texture.test_texture_arguments import IMAGE, make_surface, make_texture
from tests.seeds.generated import generated_module

CODE = r"""
struct Inner { short a; double b; };
struct Point { float x; Inner inner; signed char id[3]; };
extern "C" __global__ void add(Point* p, Point by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  p[i].x += by.x; p[i].inner.b += by.inner.b; p[i].id[2] += by.id[2];
}
"""
TEXT = "{x: float32, inner: {a: int16, b: float64}, id: int8[3]}"
POINT = np.dtype(
    [("x", "f4"), ("inner", np.dtype([("a", "i2"), ("b", "f8")], align=True)), ("id", "i1", 3)],
    align=True,
)
OTHER = np.dtype([("x", "f4"), ("y", "f8")], align=True)
PACKED = np.dtype([("x", "f4"), ("y", "f8")])


def declared(code: str, name: str, params: str, **structs: str) -> RawCallable:
    declaration = RawDeclaration(
        name, (name,), parse_c_params(params), structs=tuple(structs.items())
    )
    source = CudaSource("kernel.cu", code)
    return RawCallable(declaration, KernelLoader([CompilingProvider(OneSource(source))]))


ADD = declared(CODE, "add", "Point* p, Point by, int n", Point=TEXT)


def points(count: int) -> Any:
    p = np.zeros(count, POINT)
    p["x"], p["inner"]["b"], p["id"] = np.arange(count), 0.5, [1, 2, 3]
    return p


BY = points(2)[1]


class TestStructs:
    @pytest.fixture(autouse=True)
    def no_cupy(self, request: pytest.FixtureRequest) -> None:
        names = request.fixturenames
        if "device" in names and request.getfixturevalue("device").library == "cupy":
            pytest.skip("CuPy has no structs")

    @pytest.mark.parametrize("count", [1, 5])
    @pytest.mark.parametrize("by", [BY, points(2)[1:], np.array(BY), (1, (0, 0.5), (1, 2, 3))])
    def test_arrays_and_values(self, count: int, by: Any, device: ArrayDevice) -> None:
        p = device.array(points(count))
        for _ in range(3):
            ADD((1,), (8,), (p, by, count))
        expected = points(count)
        expected["x"] += 3
        expected["inner"]["b"] += 1.5
        expected["id"][:, 2] += 9
        np.testing.assert_array_equal(device.numpy(p), expected)

    @pytest.mark.parametrize(
        ("p", "by", "error", "message"),
        [
            (
                points(1),
                np.zeros((), OTHER)[()],
                TypeError,
                r"by is declared Point by \(\{x: float",
            ),
            (points(1), np.zeros((), PACKED)[()], TypeError, "argument by: .*use an aligned dtype"),
            (points(1), 3, TypeError, "by is declared Point by; pass a structured NumPy scalar"),
            (points(1), np.float32(3), TypeError, "but its dtype is float32|a structured NumPy"),
            (
                points(1),
                points(2),
                TypeError,
                "a structured NumPy scalar of the same layout, not an",
            ),
            (points(1), None, TypeError, "not NoneType"),
            (points(1), (1, 2), (TypeError, ValueError), "by is declared Point by"),
            (points(1), (1, (2**40, 0), (1, 2, 3)), OverflowError, "by is declared Point by"),
            (np.zeros(1, OTHER), BY, TypeError, r"p is declared Point\* p \(.* has dtype \{x: f"),
            (np.zeros(3, "f4"), BY, TypeError, "has dtype float32"),
            (points(4)[::2], BY, TypeError, "must be C-contiguous"),
            (BY, BY, TypeError, "must be an array, not void"),
        ],
    )
    def test_what_does_not_fit(self, p: Any, by: Any, error: Any, message: str) -> None:
        with pytest.raises(error, match=message):
            ADD((1,), (1,), (p, by, 1))

    def test_next_to_arrays_of_a_gpu(self, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        kernel = declared(CODE, "add", "Point* p, Point by, int n", Point=TEXT)
        p = kspec.asarray(points(2), device=place.place)
        kernel((1,), (2,), (p, BY, 2))
        with pytest.raises(kspec.ArgumentTypeError, match="by is declared Point by"):
            kernel((1,), (2,), (p, p, 2))
        both = declared(CODE, "add", "Point* p, const Point* by, int n", Point=TEXT)
        for count in (1, 2):
            with pytest.raises(kspec.ArgumentTypeError, match="by is a NumPy array next to CUDA"):
                both((1,), (2,), (p, points(count), 2))

    @pytest.mark.parametrize("count", [1, 1000])
    def test_the_shipped_one(self, count: int, device: ArrayDevice) -> None:
        module = generated_module("points")
        p = np.zeros(count, module.Point)
        p["x"], p["y"] = 3, np.arange(count)
        d = device.zeros(count, "float32")
        module.distance(device.array(p), (0, 0, 1), d)
        np.testing.assert_allclose(device.numpy(d), np.hypot(3, np.arange(count)), rtol=1e-6)
        module.distance(device.array(p), p[0], d)
        np.testing.assert_allclose(device.numpy(d), np.arange(count), rtol=1e-6)


SPEC = """
[structs.Point]
x = "float32"
y = "float32"
n = "int32"

[raw.f]
code = '''
struct Point { FIELDS };
extern "C" __global__ void f(Point* p) {}
'''
params = "Point* p"
"""


class TestLayout:
    """The compiler compares a spec's struct with the source's, and says where it is declared."""

    @pytest.fixture
    def log(self, tmp_path: Path) -> Any:
        def compile_with(fields: str, target: str) -> str:
            (tmp_path / "p.toml").write_text(SPEC.replace("FIELDS", fields))
            text = render_file(load_spec_file(tmp_path / "p.toml", tmp_path))
            try:
                return compile_source(CudaSource("p.cu", text, ("f",)), Target(target)).log
            except kspec.CompileError as error:
                return str(error)

        return compile_with

    @pytest.mark.parametrize("target", ["sm_80", "sm_100", "host"])
    @pytest.mark.parametrize(
        ("fields", "line", "message"),
        [
            ("float y, x; int n;", 3, "Point.x is float32 at byte 0 in this spec"),
            ("float x; double y; int n;", 4, "Point.y is float32 at byte 4"),
            ("float x; int y; int n;", 4, "Point.y is float32 at byte 4"),
            ("float x, y; unsigned n;", 5, "Point.n is int32 at byte 8"),
            ("float x, y; short n;", 5, "Point.n is int32 at byte 8"),
            ("float x, y; int n, m;", 2, "Point has 12 bytes, aligned to 4"),
            ("alignas(16) float x; float y; int n;", 2, "Point has 12 bytes, aligned to 4"),
            ("float x, y; int m;", 5, "'n'|\"n\"|‘n’"),
        ],
    )
    def test_another_layout(
        self, fields: str, line: int, message: str, target: str, log: Any
    ) -> None:

        found = re.search(rf"p\.toml[:(]{line}\b.*?({message})", log(fields, target), re.DOTALL)
        assert found, log(fields, target)

    @pytest.mark.parametrize("target", ["sm_80", "host"])
    @pytest.mark.parametrize(
        "fields",
        [
            "float x, y; int n;",
            "float x; float y; signed n;",
            "float x, y; enum Sort { A, B } n;",
            "float x, y; union { int n; float m; };",
            "struct { float v; } x; float y; int n;",
            "float x, y; int n; static constexpr int size = 3; __device__ float sum() { return x; }",
        ],
    )
    def test_the_same_layout(self, fields: str, target: str, log: Any) -> None:
        assert log(fields, target) == ""


FETCH = r"""
extern "C" __global__ void fetch(cudaTextureObject_t tex, float* y, int width) {
  int i = threadIdx.x;
  y[i] = tex2D<float>(tex, i % width, i / width);
}
extern "C" __global__ void store(cudaSurfaceObject_t surf, float a) {
  surf2Dwrite(a, surf, threadIdx.x * 4, 1);
}
"""


class TestHandles:
    KERNEL = kspec.RawKernel(FETCH, "fetch", params="cudaTextureObject_t tex, float* y, int width")
    STORE = kspec.RawKernel(FETCH, "store", params="cudaSurfaceObject_t surf, float a")

    def test_textures(self, place: ArrayDevice) -> None:
        tex, y = make_texture(place), place.zeros(12, "float32")
        self.KERNEL((1,), (12,), (tex, y, 4))
        np.testing.assert_array_equal(place.numpy(y), IMAGE.ravel())

    def test_surfaces(self, place: ArrayDevice) -> None:
        self.STORE((1,), (4,), (make_surface(place), 2))

    def test_what_is_none(self, place: ArrayDevice) -> None:
        y, surface = place.zeros(12, "float32"), make_surface(place)
        for wrong in (y, None, 1.5, "tex", True, make_texture(place).ptr, surface):
            with pytest.raises(kspec.ArgumentTypeError, match=r"fetch: .*must be a TextureObject"):
                self.KERNEL((1,), (12,), (wrong, y, 4))
        with pytest.raises(
            kspec.ArgumentTypeError, match="must be a SurfaceObject, not TextureObj"
        ):
            self.STORE((1,), (4,), (make_texture(place), 2))

    def test_the_class_of_a_subclass(self, place: ArrayDevice) -> None:
        class Mine(texture.TextureObject):
            pass

        tex = make_texture(place)
        tex.__class__ = Mine
        y = place.zeros(12, "float32")
        self.KERNEL((1,), (12,), (tex, y, 4))
        np.testing.assert_array_equal(place.numpy(y), IMAGE.ravel())
