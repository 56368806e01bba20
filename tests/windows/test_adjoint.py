"""Derived gradients of windowed inputs: the transpose of what the operation computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.stages import CudaSource, Target
from kspec.pipeline import LazySource
from kspec.render import render_file, specializations
from kspec.spec.loader import load_specs
from tests.compiling import compiled
from tests.devices import ArrayDevice
from tests.windows.reference import ALL


def windowed(name: str, operation: str, reach: Any, inputs: str = "T u", **keywords: Any) -> Any:
    return kspec.ElementwiseKernel(
        inputs,
        keywords.pop("outputs", "T v"),
        operation,
        name,
        windows={"u": {"reach": reach, "boundary": ALL}, **keywords.pop("windows", {})},
        backward={"u": "adjoint"},
        **keywords,
    )


STAR = windowed(
    "star",
    "v = (2 * u(-1, 0) + 3 * u(1, 0) + 5 * u(0, -1) + 7 * u(0, 2) - 4 * u) / h + h",
    [1, [1, 2]],
    "T u, T h",
)
LINE = windowed("line", "v = u(-2) + 2 * u(-1) - 3 * u(1)", [[2, 1]])
CUBE = windowed("cube", "v = u(-1, 0, 1) - 2 * u(0, 1, 0) + 3 * u", [1, 1, 1])
WEIGHTED = windowed(
    "weighted",
    "T s = 0; for (int k = -R; k <= R; ++k) s += w[k + R] * u(k); v = s",
    ["R"],
    "T u, raw T w",
    sizes={"R": [1, 2]},
)


def jacobian(call: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the Jacobian of a linear function."""
    zero = call(np.zeros(shape)).ravel()
    rows = [call(row.reshape(shape)).ravel() - zero for row in np.eye(int(np.prod(shape)))]
    return np.array(rows)


def integers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(1, 9, shape).astype(float)


def on(device: ArrayDevice, *values: Any) -> list[Any]:
    return [device.array(one) if isinstance(one, np.ndarray) else one for one in values]


class TestValues:
    @pytest.mark.parametrize("boundary", ALL)
    @pytest.mark.parametrize("shape", [(5, 6), (4, 4), (1, 1), (2, 3), (1, 5), (5, 1)])
    def test_two_axes(self, shape: tuple[int, ...], boundary: str, device: ArrayDevice) -> None:
        if boundary == "valid" and (shape[0] < 3 or shape[1] < 4):
            pytest.skip("nothing is valid")
        h = 2.0 ** integers(*STAR(np.zeros(shape), 1.0, boundary=boundary).shape)
        grad = integers(*h.shape, seed=1)
        rows = jacobian(lambda u: STAR(u, h, boundary=boundary), shape)
        expected = (rows @ grad.ravel()).reshape(shape)
        result = STAR.backward.kernel(*on(device, h, grad), boundary=boundary)
        np.testing.assert_allclose(device.numpy(result), expected, rtol=1e-12)

    @pytest.mark.parametrize("boundary", ALL)
    def test_one_and_three_axes(self, boundary: str, device: ArrayDevice) -> None:
        for kernel, shape in ((LINE, (2, 7)), (LINE, (3,)), (CUBE, (3, 4, 5))):
            rows = jacobian(lambda u, k=kernel: k(u, boundary=boundary), shape)
            grad = integers(*kernel(np.zeros(shape), boundary=boundary).shape)
            expected = (rows @ grad.ravel()).reshape(shape)
            for _ in range(4):  # the last ones by a plan
                result = kernel.backward.kernel(*on(device, grad), boundary=boundary)
                np.testing.assert_allclose(device.numpy(result), expected, atol=1e-12)

    @pytest.mark.parametrize("boundary", ["mirror", "valid"])
    def test_sizes_and_raw_weights(self, boundary: str, device: ArrayDevice) -> None:
        for reach in (1, 2, 3):
            w = integers(2 * reach + 1, seed=reach)
            rows = jacobian(lambda u, w=w, r=reach: WEIGHTED(u, w, R=r, boundary=boundary), (9,))
            grad = integers(rows.shape[1])
            result = WEIGHTED.backward.kernel(*on(device, w, grad), R=reach, boundary=boundary)
            np.testing.assert_allclose(device.numpy(result), rows @ grad)

    def test_another_window_is_a_coefficient(self, device: ArrayDevice) -> None:
        kernel = windowed(
            "bilinear",
            "v = c(1) * u(0, -1) + c * u(1, 0) + c(-1)",
            [1, 1],
            "T u, T c",
            windows={"c": {"reach": [1], "boundary": ["wrap", *ALL]}},
        )
        c, grad = integers(6), integers(4, 6, seed=1)
        rows = jacobian(lambda u: kernel(u, c), (4, 6))
        assert kernel.backward.takes == ("c", "grad_v")
        result = kernel.backward.kernel(*on(device, c, grad))
        np.testing.assert_allclose(device.numpy(result).ravel(), rows @ grad.ravel())

    def test_several_outputs(self, device: ArrayDevice) -> None:
        kernel = windowed("two", "v = u(1) - u; w = 3 * u(-1)", [1], outputs="T v, T w")
        gv, gw = integers(5), integers(5, seed=1)
        dv = jacobian(lambda u: kernel(u)[0], (5,))
        dw = jacobian(lambda u: kernel(u)[1], (5,))
        result = kernel.backward.kernel(*on(device, gv, gw))
        np.testing.assert_allclose(device.numpy(result), dv @ gv + dw @ gw)

    def test_batches(self, device: ArrayDevice) -> None:
        grad = integers(3, 4, 7)
        result = device.numpy(LINE.backward.kernel(*on(device, grad), boundary="wrap"))
        single = [LINE.backward.kernel(one, boundary="wrap") for one in grad.reshape(12, 7)]
        np.testing.assert_array_equal(result.reshape(12, 7), single)

    def test_nothing_valid_gives_zeros(self, device: ArrayDevice) -> None:
        result = LINE.backward.kernel(*on(device, np.zeros((2, 0))), boundary="valid")
        np.testing.assert_array_equal(device.numpy(result), np.zeros((2, 3)))

    @pytest.mark.parametrize("dtype", ["float16", "float32"])
    def test_narrow_floats(self, dtype: str, place: ArrayDevice) -> None:
        grad = integers(40).astype(dtype)
        result = place.numpy(LINE.backward.kernel(place.array(grad), boundary="reflect"))
        assert result.dtype == dtype
        expected = LINE.backward.kernel(grad.astype(float), boundary="reflect")
        np.testing.assert_array_equal(result, expected)


def test_gradients_do_not_overlap_what_is_gathered() -> None:
    grad = np.ones(8)
    with pytest.raises(kspec.OverlapError, match=r"grad_u is written to, .* argument grad_v"):
        LINE.backward.kernel(grad, grad)


def test_it_compiles_for_cuda() -> None:
    kernel: Any = STAR.backward.kernel
    (wanted, *_) = specializations(kernel.spec.model_copy(update={"types": {"T": ("float32",)}}))
    image = compiled(LazySource(kernel.spec)(wanted), Target("compute_80"))
    assert image.log == ""


def test_a_spec_file(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "a.toml").write_text(
        """[elementwise.slope]
inputs = ["T u"]
outputs = ["T v"]
operation = '''
v = u(1)
  - u(-1)'''
windows = { u = { reach = [1], boundary = "wrap" } }
types = { T = ["float32", "int32"] }
backward = { u = "adjoint" }
"""
    )
    (file,) = load_specs(tmp_path / "specs", tmp_path)
    assert [spec.name for spec in file.specs] == ["slope", "slope_backward"]
    assert [dict(one.binding)["T"] for one in specializations(file.specs[1])] == ["float32"]  # type: ignore[union-attr]
    wanted = tuple(one.name_expression for spec in file.specs for one in specializations(spec))
    source = CudaSource("a.cu", render_file(file))
    image = compiled(replace(source, name_expressions=wanted), Target("compute_80"))
    assert set(image.symbols) == set(wanted) and image.log == ""


class TestFaults:
    def fault(self, **fields: Any) -> str:
        known: dict[str, Any] = {
            "in_params": "T u, T x",
            "out_params": "T v",
            "operation": "v = u(1) * x",
            "name": "k",
            "windows": {"u": {"reach": [1], "boundary": "wrap"}},
            "backward": {"u": "adjoint"},
        }
        with pytest.raises(kspec.SpecError) as caught:
            kspec.ElementwiseKernel(**(known | fields))
        return str(caught.value)

    def test_inputs_without_a_window(self) -> None:
        text = self.fault(backward={"x": "adjoint"})
        assert "'adjoint' is for inputs with a window, and 'x' has none; write an expr" in text

    def test_beside_others(self) -> None:
        text = self.fault(backward={"u": "adjoint", "x": "grad_v"})
        assert "'adjoint' stands alone; name a kernel for the gradients of several inputs" in text

    def test_outputs_that_are_not_floating(self) -> None:
        text = self.fault(out_params="T v, int32 w", operation="v = u(1) * x; w = 1")
        assert "output 'w' is int32; 'adjoint' needs floating outputs" in text

    def test_the_index(self) -> None:
        text = self.fault(operation="v = u(1) * i")
        assert "the operation reads where an element is (i or _ind), which 'adjoint' moves" in text
