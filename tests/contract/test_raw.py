"""RawKernel and RawModule, row by row where no other file has the row.

``tests/runtime/raw/test_raw.py`` has launches, arguments and modules, ``test_kernel_attributes.py`` beside it the
attributes, ``test_raw_compilers.py`` compilers, logs and name expressions.
"""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler import compile_source
from kspec.compiler.cuda.fatbin import make_fatbin
from kspec.compiler.target import target_for_capability
from kspec.model.stages import CudaSource, Target
from kspec.runtime import driver
from tests.devices import ArrayDevice

COUNT = r"""
extern "C" __global__ void count(float* out) { out[threadIdx.x] = threadIdx.x + 1; }
template <class T> __global__ void fill(T* out, T value) { out[threadIdx.x] = value; }
__global__ void plain(float* out) { out[threadIdx.x] = 7; }
"""


def counter(**options: Any) -> kspec.RawKernel:
    return kspec.RawKernel(COUNT, "count", **options)


class TestConstructor:
    @pytest.mark.parametrize(
        ("code", "name", "message"),
        [
            (None, "f", "code must be a string, not NoneType"),
            (b"", "f", "code must be a string, not bytes"),
            ("", None, "name must be a string, not NoneType"),
            ("", 3, "name must be a string, not int"),
        ],
    )
    def test_text_is_text(self, code: Any, name: Any, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            kspec.RawKernel(code, name)

    def test_order_of_positional_arguments(self) -> None:
        kernel = kspec.RawKernel(COUNT, "count", ("-DA",), "nvcc")
        assert (kernel.options, kernel.backend) == (("-DA",), "nvcc")
        with pytest.raises(TypeError):
            kspec.RawKernel(COUNT, "count", (), "nvrtc", True)  # type: ignore[misc]

    def test_what_can_be_read(self) -> None:
        kernel = counter(enable_cooperative_groups=True)
        for name, value in {
            "code": COUNT,
            "name": "count",
            "__name__": "count",
            "options": (),
            "backend": "nvrtc",
            "file_path": None,
            "enable_cooperative_groups": True,
        }.items():
            assert getattr(kernel, name) == value
        assert kernel.kernel.name == "count"

    @pytest.mark.parametrize("name", ["translate_cucomplex", "jitify", "name_expressions"])
    def test_what_can_not(self, name: str) -> None:
        with pytest.raises(AttributeError):
            getattr(counter(), name)

    def test_they_are_equal_to_themselves(self) -> None:
        one, other = counter(), counter()
        assert one == one and one != other
        assert {one: 1, other: 2}[one] == 1

    @pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
    def test_copies(self, duplicate: Any, place: ArrayDevice) -> None:
        kernel = duplicate(counter())
        out = place.zeros(3, "float32")
        kernel((1,), (3,), (out,))
        assert place.numpy(out).tolist() == [1, 2, 3]

    def test_pickles_of_anything_else(self) -> None:
        with pytest.raises(pickle.UnpicklingError):
            pickle.loads(pickle.dumps(counter())[:-20])

    @pytest.mark.gpu
    def test_a_mangled_name(self, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("the host device has names of its own")
        out = place.zeros(2, "float32")
        kspec.RawKernel(COUNT, "_Z5plainPf")((1,), (2,), (out,))
        assert place.numpy(out).tolist() == [7, 7]


class TestCall:
    def test_no_keywords_of_the_constructor(self, place: ArrayDevice) -> None:
        with pytest.raises(TypeError, match="enable_cooperative_groups"):
            counter()((1,), (1,), (place.zeros(1, "float32"),), enable_cooperative_groups=True)  # type: ignore[call-arg]

    def test_arguments_in_any_sequence(self, place: ArrayDevice) -> None:
        out = place.zeros(3, "float32")
        for args in ((out,), [out], iter((out,)), (one for one in [out]), out):
            out[...] = 0
            counter()((1,), (3,), args)
            assert place.numpy(out).tolist() == [1, 2, 3]

    @pytest.mark.parametrize("params", [None, "float* out"])
    def test_one_argument_is_a_tuple_too(self, params: str | None, device: ArrayDevice) -> None:
        kernel, out = counter(params=params), device.zeros(1, "float32")
        for args in ("out", None, 3, {"out": out}):
            with pytest.raises(TypeError, match="count: args must be a tuple of the arguments, no"):
                kernel((1,), (1,), args)
            with pytest.raises(TypeError, match=r"one argument alone is \(argument,\)"):
                kernel.bind((1,), (1,), args)

    def test_views_lose_their_strides(self, device: ArrayDevice) -> None:
        out = device.zeros(8, "float32")
        counter()((1,), (3,), (out[2::2],))
        assert device.numpy(out).tolist() == [0, 0, 1, 2, 3, 0, 0, 0]

    @pytest.mark.parametrize("size", [4000, 8000, 32_700])
    def test_large_structs(self, size: int, place: ArrayDevice) -> None:
        """As large as parameters may be together, 32,764 bytes with the pointer."""
        code = f"""
        struct Many {{ signed char values[{size}]; }};
        extern "C" __global__ void total(Many many, int* out) {{
          int sum = 0;
          for (int i = 0; i < {size}; i++) sum += many.values[i];
          *out = sum;
        }}
        """
        many = np.zeros(1, [("values", f"V{size}")])
        many.view(np.int8)[:] = 3
        out = place.zeros(1, "int32")
        kernel = kspec.RawKernel(code, "total")
        for value in (many, many[0]):
            kernel((1,), (1,), (value, out))
            assert place.numpy(out)[0] == 3 * size

    def test_structs_no_gpu_takes(self) -> None:
        code = "struct Many { char values[40000]; }; __global__ void f(Many many) {}"
        with pytest.raises(kspec.CompileError, match="40000 bytes required, max 32764"):
            compile_source(CudaSource("k.cu", code, ("f",)), Target("sm_90"))

    def test_reading_an_attribute_compiles(self) -> None:
        broken = kspec.RawKernel('extern "C" __global__ void f() { undeclared(); }', "f")
        for read in (lambda: broken.attributes, lambda: broken.num_regs, broken.compile):
            with pytest.raises(kspec.CompileError, match="undeclared"):
                read()

    def test_launches_in_kernels_need_an_option(self) -> None:
        code = r"""__global__ void child() {}
        extern "C" __global__ void parent() { child<<<1, 1>>>(); }"""
        with pytest.raises(kspec.CompileError, match=r"options=\(.-dc.,"):
            compile_source(CudaSource("k.cu", code), Target("sm_90"))


class TestModule:
    def test_what_can_be_read(self) -> None:
        module = kspec.RawModule(
            code=COUNT,
            options=("-DA=1",),
            enable_cooperative_groups=True,
            name_expressions=["fill<float>"],
        )
        assert module.code == COUNT and module.file_path is None
        assert (module.options, module.backend) == (("-DA=1",), "nvrtc")
        assert module.enable_cooperative_groups and module.name_expressions == ("fill<float>",)
        assert module.get_function("count").enable_cooperative_groups

    def test_the_mapping_of_its_expressions(self) -> None:
        names = ["fill<float>", "fill<double>"]
        module = kspec.RawModule(code=COUNT, name_expressions=names)
        mapping = module.module.mapping
        assert set(names) <= set(mapping)
        assert len({mapping[name] for name in names}) == 2
        if len(kspec.devices()) > 1:
            assert mapping["fill<float>"] == "_Z4fillIfEvPT_S0_"

    def test_functions_are_new_objects_of_one_module(self, place: ArrayDevice) -> None:
        module = kspec.RawModule(code=COUNT)
        one, other = module.get_function("count"), module.get_function("count")
        assert one is not other and one != other
        assert one.kernel is other.kernel

    def test_asking_for_a_function_compiles(self) -> None:
        broken = kspec.RawModule(code="nonsense")
        for ask in (broken.get_function, broken.get_global):
            with pytest.raises(kspec.CompileError):
                ask("count")

    def test_kinds_of_names_do_not_mix(self, place: ArrayDevice) -> None:
        code = "__constant__ int table[3];" + COUNT
        module = kspec.RawModule(code=code)
        with pytest.raises(kspec.LoadError, match=r"(not found|no global variable).*\bcount\b"):
            module.get_global("count", place.place)
        if place.is_host:
            with pytest.raises(kspec.LoadError, match="not found: table"):
                kspec.RawKernel(code, "table")((1,), (1,), (place.zeros(1),))

    @pytest.mark.parametrize(
        ("keywords", "message"),
        [
            ({"code": 5}, "code must be a string, not int"),
            ({"code": COUNT, "options": (3,)}, "an option must be a string, not int"),
            ({"code": COUNT, "name_expressions": [3]}, "a name expression must be a string"),
            ({"code": COUNT, "name_expressions": "fill"}, "a sequence of strings, not a string"),
        ],
    )
    def test_text_is_text(self, keywords: Any, message: str) -> None:
        with pytest.raises(TypeError, match=message):
            kspec.RawModule(**keywords)

    @pytest.mark.parametrize("name", [None, 3, b"count"])
    def test_names_are_text(self, name: Any) -> None:
        module = kspec.RawModule(code=COUNT)
        for ask in (module.get_function, module.get_global):
            with pytest.raises(TypeError, match="name must be a string"):
                ask(name)

    def test_texture_references_are_gone(self) -> None:
        with pytest.raises(NotImplementedError, match=r"tex: CUDA 12 removed .*TextureObject"):
            kspec.RawModule(code=COUNT).get_texref("tex")


class TestFiles:
    def test_a_missing_one_is_noticed_at_first_use(self, tmp_path: Path) -> None:
        module = kspec.RawModule(path=str(tmp_path / "none.cubin"))
        uses: list[Any] = [
            lambda: module.get_function("f"),
            lambda: module.get_global("f"),
            lambda: module.module,
            module.compile,
        ]
        for use in uses:
            with pytest.raises(kspec.LoadError, match="CUDA_ERROR_FILE_NOT_FOUND"):
                use()

    def test_what_can_be_read(self, tmp_path: Path) -> None:
        path = str(tmp_path / "none.ptx")
        module = kspec.RawModule(path=path, options=("-DA",), backend="nvrtc")
        again = pickle.loads(pickle.dumps(module))
        for one in (module, again):
            assert (one.code, one.file_path) == (None, path)
            assert (one.options, one.backend, one.name_expressions) == ((), "nvcc", ())

    @pytest.mark.gpu
    @pytest.mark.parametrize("kind", ["cubin", "ptx", "fatbin", "img"])
    def test_every_format(self, kind: str, tmp_path: Path, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        code = "__constant__ float by;" + COUNT.replace("+ 1", "+ by")
        source = CudaSource("k.cu", code, ("fill<float>",))
        cubin = target_for_capability(*driver.compute_capability(0))
        ptx = Target("compute_80")
        images = {target: compile_source(source, target) for target in (cubin, ptx)}
        content = {
            "cubin": images[cubin].code,
            "ptx": images[ptx].code,
            "fatbin": make_fatbin(list(images.values())).code,
            "img": images[cubin].code,  # the driver looks at the content
        }
        path = tmp_path / f"kernels.{kind}"
        path.write_bytes(content[kind])
        module = kspec.RawModule(path=str(path))
        module.get_global("by").array(1, "float32")[...] = 10
        count = module.get_function("count")
        assert (count.file_path, count.code) == (str(path), None)
        out = place.zeros(3, "float32")
        for _ in range(3):
            count((1,), (3,), (out,))
        assert place.numpy(out).tolist() == [10, 11, 12]
        fill = module.get_function(images[cubin].symbols["fill<float>"])
        fill((1,), (3,), (out, np.float32(2)))
        assert place.numpy(out).tolist() == [2, 2, 2]
