"""Images in words, and why one cannot be loaded."""

from __future__ import annotations

import pytest

import kspec
from kspec.compiler.cuda.fatbin import make_fatbin
from kspec.errors import DriverError
from kspec.model.stages import CudaSource, Image, Target
from kspec.runtime import driver
from kspec.runtime.driver import module as driver_module
from kspec.runtime.modules.cuda import CudaModule
from kspec.runtime.modules.image_text import Contents, contents_of
from tests.compiling import compiled

SOURCE = CudaSource("f.cu", 'extern "C" __global__ void f(float* x) { *x = 1; }')
PTX = compiled(SOURCE, Target("compute_80")).code


def cubin(arch: str) -> Image:
    return compiled(SOURCE, Target(arch))


class TestContents:
    @pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
    def test_cubins(self, arch: str) -> None:
        assert contents_of(cubin(arch).code) == Contents("cubin", (arch,))

    def test_ptx(self) -> None:
        found = contents_of(PTX)
        assert (found.kind, found.archs) == ("PTX", ("compute_80",))
        assert found.ptx_version is not None
        assert found.ptx_version >= (8, 0)

    def test_fatbins(self) -> None:
        archs = ("sm_80", "sm_90a", "sm_100", "sm_100f", "sm_120f", "compute_80", "compute_120f")
        members = [cubin(arch) for arch in archs]
        assert contents_of(make_fatbin(members).code) == Contents("fatbin", archs)

    @pytest.mark.parametrize(
        ("code", "text"),
        [
            (b"", "empty file"),
            (b"garbage, garbage", "file that begins with b'garbage,'"),
            (b"\x7fELF", "cubin"),
            (b"\x50\xed\x55\xba", "fatbin"),
            (b"\x50\xed\x55\xba" + bytes(200), "fatbin"),
        ],
    )
    def test_what_is_damaged(self, code: bytes, text: str) -> None:
        found = contents_of(code)
        assert found.kind.startswith(text)
        assert found.archs == ()

    def test_any_bytes(self) -> None:
        """Nothing is read beyond the end, and nothing for ever."""
        whole = make_fatbin([cubin("sm_80"), cubin("sm_90")]).code
        one = cubin("sm_90").code
        for end in range(0, len(whole), 7):
            contents_of(whole[:end])
            contents_of(one[:end])


class TestLoading:
    @pytest.mark.parametrize(
        ("name", "code", "text"),
        [
            (
                "NO_BINARY_FOR_GPU",
                cubin("sm_80").code,
                r"a cubin for sm_80, on GPU \(sm_90\).*13\.0",
            ),
            ("NO_BINARY_FOR_GPU", cubin("sm_80").code, "compile it for sm_90, or as PTX"),
            (
                "UNSUPPORTED_PTX_VERSION",
                PTX.replace(b".version 9.0", b".version 9.4"),
                r"under a driver for CUDA 13\.0; PTX 9\.4 is newer than the driver: update",
            ),
            ("INVALID_IMAGE", b"garbage!", r"begins with b'garbage!'.*never an image"),
            (
                "INVALID_IMAGE",
                cubin("sm_90").code[:1000],
                "a cubin for sm_90.*may be damaged, or made by a newer toolkit than the driver",
            ),
        ],
    )
    def test_the_message_says_what_does_not_fit(
        self, name: str, code: bytes, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(ordinal: int, code: bytes) -> None:
            raise DriverError(f"CUDA_ERROR_{name}", "the driver's words", 1)

        monkeypatch.setattr(driver_module, "load", fail)
        monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))
        monkeypatch.setattr(driver, "device_name", lambda ordinal: "GPU")
        monkeypatch.setattr(driver, "driver_version", lambda: 13000)
        with pytest.raises(kspec.LoadError, match=f"CUDA_ERROR_{name}: the driver's words.*{text}"):
            CudaModule(Image("cubin", "unknown", code, {}), 0)

    @pytest.mark.gpu
    @pytest.mark.parametrize(
        ("code", "text"),
        [
            (b"garbage!", "never an image"),
            (cubin("sm_80").code, "CUDA_ERROR_NO_BINARY_FOR_GPU.*a cubin for sm_80"),
            (PTX.replace(b".version 9.0", b".version 9.9"), "PTX 9.9 is newer than the driver"),
        ],
    )
    def test_on_a_gpu(self, code: bytes, text: str, tmp_path: object) -> None:
        if len(kspec.devices()) == 1 or driver.compute_capability(0) < (9, 0):
            pytest.skip("no CUDA device of compute capability 9.0 or newer")
        with pytest.raises(kspec.LoadError, match=text):
            CudaModule(Image("cubin", "unknown", code, {}), 0)
