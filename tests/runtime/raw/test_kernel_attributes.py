"""Attributes of raw kernels, and launches that a kernel is too large for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.stages import Image
from kspec.runtime.driver import module as driver_module
from kspec.runtime.driver.launch import Launch, LaunchOptions
from kspec.runtime.modules import readable
from kspec.runtime.modules.cuda import CudaKernel, CudaModule
from kspec.runtime.raw.sizes import make_launch
from kspec.runtime.schedules.marshal import PackedParameters
from tests.devices import ArrayDevice

NAMES = {
    "binary_version",
    "cache_mode_ca",
    "const_size_bytes",
    "local_size_bytes",
    "max_dynamic_shared_size_bytes",
    "max_threads_per_block",
    "num_regs",
    "preferred_shared_memory_carveout",
    "ptx_version",
    "shared_size_bytes",
}
CODE = r"""
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[n - 1 - i];
}
extern "C" __global__ void __launch_bounds__(64) small(float* x) {
    __shared__ float s[256];
    s[threadIdx.x] = 1;
    x[threadIdx.x] = s[threadIdx.x];
}
"""


@pytest.fixture
def reverse() -> kspec.RawKernel:
    return kspec.RawKernel(CODE, "reverse")


class TestReading:
    def test_all_ten(self, reverse: kspec.RawKernel) -> None:
        attributes = reverse.attributes
        assert set(attributes) == NAMES
        assert all(type(value) is int for value in attributes.values())
        for name, value in attributes.items():
            assert getattr(reverse, name) == value
        assert reverse.max_dynamic_shared_size_bytes == 48 * 1024
        assert reverse.max_threads_per_block == 1024

    def test_shared_memory(self) -> None:
        kernel = kspec.RawKernel(
            """__shared__ char outside[100];
            extern "C" __global__ void k(float* x) {
              __shared__ float inside[64];
              inside[0] = x[0], x[1] = inside[0] + outside[0];
            }""",
            "k",
        )
        assert kernel.shared_size_bytes == 356

    @pytest.mark.gpu
    def test_on_a_gpu(self) -> None:
        small = kspec.RawModule(code=CODE).get_function("small")
        major, minor = driver_module.driver.compute_capability(0)
        assert small.max_threads_per_block == 64
        assert small.shared_size_bytes >= 1024
        assert small.binary_version == small.ptx_version == 10 * major + minor
        assert 0 < small.num_regs <= 255
        assert small.max_dynamic_shared_size_bytes + small.shared_size_bytes <= 49152
        assert small.kernel.ptr

    def test_only_two_can_be_set(self, reverse: kspec.RawKernel) -> None:
        for name in NAMES - {
            "max_dynamic_shared_size_bytes",
            "preferred_shared_memory_carveout",
        }:
            with pytest.raises(AttributeError):
                setattr(reverse, name, 1)


class TestSetting:
    def test_more_shared_memory(self, device: ArrayDevice) -> None:
        size = 15_000
        values = np.arange(size, dtype="float32")
        kernel = kspec.RawKernel(CODE, "reverse")
        x, y = device.array(values), device.zeros(size, "float32")
        call = (1,), (256,), (x, y, np.int32(size))
        with pytest.raises(
            kspec.LaunchError, match="60000 bytes of dynamic shared memory"
        ) as error:
            kernel(*call, shared_mem=4 * size)
        assert "it may have 49152; set max_dynamic_shared_size_bytes" in str(error.value)
        kernel.max_dynamic_shared_size_bytes = 4 * size
        assert kernel.attributes["max_dynamic_shared_size_bytes"] == 4 * size
        for _ in range(4):
            y[...] = 0
            kernel(*call, shared_mem=4 * size)
            np.testing.assert_array_equal(device.numpy(y), values[::-1])
        kernel.max_dynamic_shared_size_bytes = 1000
        with pytest.raises(kspec.LaunchError, match="it may have 1000"):
            kernel(*call, shared_mem=4 * size)

    def test_each_object_has_its_own(self, place: ArrayDevice) -> None:
        module = kspec.RawModule(code=CODE)
        one, other = module.get_function("reverse"), module.get_function("reverse")
        one.max_dynamic_shared_size_bytes = 60_000
        one.preferred_shared_memory_carveout = 50
        assert other.max_dynamic_shared_size_bytes == 48 * 1024
        assert other.preferred_shared_memory_carveout == -1
        x = place.zeros(1, "float32")
        with pytest.raises(kspec.LaunchError, match="it may have 49152"):
            other((1,), (1,), (x, x, np.int32(1)), shared_mem=60_000)
        one((1,), (1,), (x, x, np.int32(1)), shared_mem=60_000)
        for copied in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert copied.max_dynamic_shared_size_bytes == 60_000
            assert copied.preferred_shared_memory_carveout == 50

    def test_calls_that_are_going_on_change_nothing(self, reverse: kspec.RawKernel) -> None:
        x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
        call = (1,), (32,), (x, y, np.int32(8))
        for _ in range(4):
            reverse(*call, shared_mem=2000)
        cache = reverse._call_cache
        call_function = cache.last
        reverse.max_dynamic_shared_size_bytes = 1000
        cache.last = call_function  # as in another thread that has just looked it up
        with pytest.raises(kspec.LaunchError, match="it may have 1000"):
            reverse(*call, shared_mem=2000)

    def test_bound_calls_keep_theirs(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "reverse")
        kernel.max_dynamic_shared_size_bytes = 60_000
        x, y = place.array(np.arange(8, dtype="float32")), place.zeros(8, "float32")
        call = kernel.bind((1,), (32,), (x, y, np.int32(8)), shared_mem=60_000)
        call()
        np.testing.assert_array_equal(place.numpy(y), np.arange(8)[::-1])

    @pytest.mark.parametrize("value", [-1, 300_000])
    def test_what_no_device_has(self, value: int, reverse: kspec.RawKernel) -> None:
        with pytest.raises(kspec.DriverError, match="CUDA_ERROR_INVALID_VALUE"):
            reverse.max_dynamic_shared_size_bytes = value
        assert reverse.max_dynamic_shared_size_bytes == 48 * 1024

    @pytest.mark.parametrize("value", [-2, 101])
    def test_carveouts_are_percentages(self, value: int, reverse: kspec.RawKernel) -> None:
        with pytest.raises(kspec.DriverError, match=r"CUDA_ERROR_INVALID_VALUE.*-1\.\.100"):
            reverse.preferred_shared_memory_carveout = value

    @pytest.mark.parametrize("value", [0.5, "8", None])
    def test_they_are_integers(self, value: Any, reverse: kspec.RawKernel) -> None:
        for name in ("max_dynamic_shared_size_bytes", "preferred_shared_memory_carveout"):
            before = getattr(reverse, name)
            with pytest.raises(kspec.ArgumentTypeError, match=f"{name} must be an integer, not"):
                setattr(reverse, name, value)
            assert getattr(reverse, name) == before

    def test_a_carveout_changes_no_result(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "reverse")
        kernel.preferred_shared_memory_carveout = 100
        x, y = place.array(np.arange(8, dtype="float32")), place.zeros(8, "float32")
        for _ in range(60):
            kernel((1,), (32,), (x, y, np.int32(8)), shared_mem=32)
        np.testing.assert_array_equal(place.numpy(y), np.arange(8)[::-1])

    @pytest.mark.parametrize("name", ["name", "code", "options", "backend", "file_path"])
    def test_what_it_was_made_of_stays(self, name: str, reverse: kspec.RawKernel) -> None:
        with pytest.raises(AttributeError):
            setattr(reverse, name, "other")


class TestTooLarge:
    """Refused before the launch, by what the driver says of the kernel; here it is imitated."""

    @pytest.fixture
    def kernel(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaKernel]:
        values = dict.fromkeys(NAMES, 0) | {
            "max_threads_per_block": 384,
            "num_regs": 168,
            "shared_size_bytes": 4096,
            "max_dynamic_shared_size_bytes": 45056,
        }
        told: list[Any] = []
        fake = {
            "attribute": lambda ordinal, function, name: values[name],
            "set_attribute": lambda *given: told.append(given[2:]),
            "allow_large_clusters": lambda *given: told.append("large"),
            "parameter_sizes": lambda ordinal, function: None,
        }
        for name, function in fake.items():
            monkeypatch.setattr(driver_module, name, function)
        monkeypatch.setattr(
            driver_module.driver, "compute_capability", lambda ordinal: self.capability
        )
        monkeypatch.setattr(driver_module.driver, "device_name", lambda ordinal: "GPU")
        monkeypatch.setattr(driver_module.driver, "most_shared_memory", lambda ordinal: 232448)
        made = CudaKernel(SimpleNamespace(ordinal=0), "_Z4axpyIfEvPT_", 7)  # type: ignore[arg-type]
        made.told = told  # type: ignore[attr-defined]
        yield made

    capability = (9, 0)

    def check(self, kernel: CudaKernel, launch: Launch) -> Launch:
        return kernel._checked(launch, PackedParameters([]))

    def test_threads(self, kernel: CudaKernel) -> None:
        self.check(kernel, make_launch((1,), (384,)))
        with pytest.raises(
            kspec.LaunchError, match=r"^axpy: .* 385 threads; with 168 registers for each, 384"
        ):
            self.check(kernel, make_launch((1,), (385,)))

    def test_shared_memory(self, kernel: CudaKernel) -> None:
        self.check(kernel, make_launch((1,), (1,), LaunchOptions(shared_mem=45056)))
        with pytest.raises(kspec.LaunchError, match=r"45057 .* may have 45056; .* at most 228352"):
            self.check(kernel, make_launch((1,), (1,), LaunchOptions(shared_mem=45057)))
        with pytest.raises(kspec.LaunchError, match=r"this device has 228352 for it"):
            self.check(kernel, make_launch((1,), (1,), LaunchOptions(shared_mem=228353)))

    def test_the_driver_refuses(self, kernel: CudaKernel, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*given: Any) -> None:
            raise kspec.DriverError("CUDA_ERROR_INVALID_VALUE", "invalid argument", 1)

        monkeypatch.setattr(driver_module, "set_attribute", refuse)
        with pytest.raises(kspec.DriverError, match="invalid argument: axpy: 300000 bytes of"):
            kernel.allow_shared_memory(300_000)

    def test_the_driver_is_told_what_a_launch_needs(self, kernel: CudaKernel) -> None:
        told: list[Any] = kernel.told  # type: ignore[attr-defined]
        kernel.allow_shared_memory(60_000)
        kernel.allow_shared_memory(50_000)  # of another object
        assert told == [("max_dynamic_shared_size_bytes", 60_000)]

    def test_each_kernel_of_a_module_is_one(
        self, kernel: CudaKernel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Name expressions in two spellings ask for the same symbol."""
        monkeypatch.setattr(driver_module, "load", lambda ordinal, code: None)
        monkeypatch.setattr(driver_module.DriverModule, "get_function", lambda *asked: object())
        module = CudaModule(Image("cubin", "unknown", b"", {}), 0)
        one = module.get_kernel(kernel.name)
        one.allow_shared_memory(200_000)
        module.get_kernel(kernel.name).allow_shared_memory(60_000)
        told: list[Any] = kernel.told  # type: ignore[attr-defined]
        assert told == [("max_dynamic_shared_size_bytes", 200_000)]
        assert module.get_kernel("other") is not one

    def test_clusters(self, kernel: CudaKernel, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[Any] = kernel.told  # type: ignore[attr-defined]
        launch = make_launch((16,), (32,), LaunchOptions(cluster=(8,), pdl=True))
        assert self.check(kernel, launch) == launch
        assert told == []
        self.check(kernel, make_launch((16,), (32,), LaunchOptions(cluster=(16,))))
        assert told == ["large"]
        monkeypatch.setattr(type(self), "capability", (8, 6))
        with pytest.raises(
            kspec.LaunchError, match=r"^axpy: .* need compute capability 9\.0, and GPU has 8\.6"
        ):
            self.check(kernel, launch)
        alone = make_launch((16,), (32,), LaunchOptions(pdl=True))
        assert not self.check(kernel, alone).pdl


class TestLaunchOptions:
    @pytest.mark.parametrize("cluster", [2, [2], (), (1, 1, 1, 1), (1.0,)])
    def test_a_cluster_is_a_tuple(self, cluster: Any, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "small")
        with pytest.raises(kspec.ArgumentTypeError, match=r"^small: cluster must be a tuple"):
            kernel((2,), (32,), (place.zeros(64, "float32"),), cluster=cluster)

    @pytest.mark.parametrize("cluster", [(3,), (1, 2), (0,)])
    def test_a_grid_has_whole_clusters(self, cluster: Any, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "small")
        with pytest.raises(kspec.LaunchError, match="cluster"):
            kernel((4,), (32,), (place.zeros(64, "float32"),), cluster=cluster)

    def test_the_host_device_has_none(self) -> None:
        kernel = kspec.RawKernel(CODE, "small")
        x = np.zeros(64, "float32")
        for _ in range(4):
            with pytest.raises(kspec.NotSupportedError, match="clusters exist on CUDA devices"):
                kernel((2,), (32,), (x,), cluster=(2,))

    def test_dependent_launches_wait(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "small")
        x = place.zeros(64, "float32")
        for _ in range(5):
            kernel((1,), (64,), (x,), pdl=True)
        np.testing.assert_array_equal(place.numpy(x), np.ones(64))

    def test_a_kernel_waits_for_the_one_before_it(self, place: ArrayDevice) -> None:
        code = r"""
        #include <kspec/dependent_launch.cuh>
        extern "C" __global__ void add(const int* x, int* y) {
            kspec::trigger_programmatic_launch_completion();
            kspec::grid_dependency_synchronize();
            y[threadIdx.x] = x[threadIdx.x] + 1;
        }
        """
        kernel = kspec.RawKernel(code, "add")
        arrays = [place.zeros(256, "int32"), place.zeros(256, "int32")]
        for step in range(200):
            kernel((1,), (256,), (arrays[step % 2], arrays[1 - step % 2]), pdl=step > 0)
        np.testing.assert_array_equal(place.numpy(arrays[0]), np.full(256, 200))

    @pytest.mark.parametrize("shared_mem", [1.0, "1", None])
    def test_shared_memory_is_an_integer(self, shared_mem: Any, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(CODE, "small")
        with pytest.raises(kspec.ArgumentTypeError, match="shared_mem must be an integer"):
            kernel((1,), (32,), (place.zeros(64, "float32"),), shared_mem=shared_mem)

    @pytest.mark.gpu
    @pytest.mark.alone
    def test_blocks_of_a_cluster_see_each_other(self, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("clusters exist on CUDA devices")
        code = r"""
        #include <cooperative_groups.h>
        namespace cg = cooperative_groups;
        extern "C" __global__ void ranks(int* out) {
            __shared__ int mine;
            cg::cluster_group cluster = cg::this_cluster();
            if (threadIdx.x == 0) mine = 10 * blockIdx.x;
            cluster.sync();
            unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
            if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&mine, next);
            cluster.sync();
        }
        """
        kernel = kspec.RawKernel(code, "ranks")
        out = place.zeros(8, "int32")
        for _ in range(4):
            kernel((8,), (32,), (out,), cluster=(4,))
        np.testing.assert_array_equal(place.numpy(out), [10, 20, 30, 0, 50, 60, 70, 40])


def test_names_for_messages() -> None:
    assert readable("_Z8squaringIfEvPT_i") == "squaring"
    assert readable("plain") == "plain"
