"""What can be asked of kernel objects, and that they are copied, pickled and subclassed."""

from __future__ import annotations

import copy
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from kspec.runtime.modules import loader
from tests.devices import ArrayDevice
from tests.projects import BLOCKED, ROOT, run_python

F4, F8 = np.dtype("float32"), np.dtype("float64")


def elementwise(**fields: Any) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel(
        "T x, raw float64 w", "T z, S v", "z = x * K; v = w[i]", "scale", **fields
    )


def reduction(**fields: Any) -> kspec.ReductionKernel:
    return kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", 0, "squares", **fields)


class Doubler(kspec.ElementwiseKernel):
    """A kernel with attributes of its own."""

    __slots__ = ("unit",)

    def __init__(self, factor: int) -> None:
        super().__init__("T x", "T y", f"y = {factor} * x", "doubler")
        self.factor = factor
        self.unit = "m"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


class TestAttributes:
    def test_of_elementwise_kernels(self) -> None:
        kernel = elementwise(
            reduce_dims=False,
            preamble="#define K 3",
            no_return=True,
            return_tuple=True,
            options=("-DA=1",),
            loop_prep="int p = 1;",
            after_loop="p++;",
        )
        assert [str(param) for param in kernel.in_params] == ["T x", "raw float64 w"]
        assert [param.name for param in kernel.out_params] == ["z", "v"]
        assert kernel.params == kernel.in_params + kernel.out_params
        assert [param.ctype for param in kernel.in_params] == ["T", "double"]
        assert [param.dtype for param in kernel.in_params] == [None, np.dtype("float64")]
        assert [param.is_const for param in kernel.params] == [True, True, False, False]
        assert (kernel.nin, kernel.nout, kernel.nargs) == (2, 2, 4)
        assert kernel.operation == "z = x * K; v = w[i]"
        assert (kernel.name, kernel.__name__) == ("scale", "scale")
        assert kernel.preamble == "#define K 3"
        assert (kernel.reduce_dims, kernel.no_return, kernel.return_tuple) == (False, True, True)
        assert kernel.kwargs == {
            "options": ("-DA=1",),
            "loop_prep": "int p = 1;",
            "after_loop": "p++;",
        }

    def test_defaults(self) -> None:
        kernel = kspec.ElementwiseKernel("", "", "f()")
        assert (kernel.name, kernel.nargs, kernel.params) == ("kernel", 0, ())
        assert (kernel.reduce_dims, kernel.no_return, kernel.return_tuple) == (True, False, False)
        assert kernel.kwargs == {"options": (), "loop_prep": "", "after_loop": ""}
        table = {"u": {"reach": [[1, 2]], "boundary": "wrap"}}
        kernel = kspec.ElementwiseKernel(
            "T u", "T v", "v = u(1)", windows=table, sizes={"R": [1]}, options=("-DA",)
        )
        assert kernel.kwargs == {
            "options": ("-DA",),
            "loop_prep": "",
            "after_loop": "",
            "windows": {"u": {"reach": ((1, 2),), "boundary": ("wrap",), "value": 0}},
            "sizes": {"R": (1,)},
        }
        assert kspec.ReductionKernel("T x", "T y", "x", "a", "y = a", None).name == "reduce_kernel"

    def test_of_reduction_kernels(self) -> None:
        kernel = reduction(preamble="#define A", options=["-DB"], reduce_dims=False)
        assert (kernel.map_expr, kernel.reduce_expr) == ("x * x", "a + b")
        assert (kernel.post_map_expr, kernel.identity) == ("y = a", "0")
        assert (kernel.name, kernel.__name__, kernel.preamble) == ("squares",) * 2 + ("#define A",)
        assert (kernel.options, kernel.reduce_dims) == (("-DB",), False)
        assert (kernel.nin, kernel.nout, kernel.nargs) == (1, 1, 2)
        assert [param.name for param in kernel.params] == ["x", "y"]

    @pytest.mark.parametrize(
        ("outputs", "given", "expected"),
        [
            ("T y", None, "T"),
            ("float32 y, T z", None, "float"),
            ("T y", "double", "double"),
            ("float16 y", None, "float"),
        ],
    )
    def test_reduce_type(self, outputs: str, given: str | None, expected: str) -> None:
        kernel = kspec.ReductionKernel(
            "T x",
            outputs,
            "x",
            "a + b",
            "y = z = a" if "z" in outputs else "y = a",
            "0",
            "k",
            reduce_type=given,
        )
        assert kernel.reduce_type == expected

    @pytest.mark.parametrize(
        "name",
        [
            "in_params",
            "out_params",
            "params",
            "nin",
            "nout",
            "nargs",
            "operation",
            "name",
            "reduce_dims",
            "preamble",
            "no_return",
            "return_tuple",
            "kwargs",
            "__name__",
            "cached_code",
            "cached_codes",
            "declaration",
            "spec",
        ],
    )
    def test_are_read_only(self, name: str) -> None:
        with pytest.raises(AttributeError):
            setattr(elementwise(), name, None)

    @pytest.mark.parametrize(
        "name",
        [
            "in_params",
            "out_params",
            "params",
            "nin",
            "nout",
            "nargs",
            "map_expr",
            "reduce_expr",
            "post_map_expr",
            "name",
            "reduce_type",
            "reduce_dims",
            "preamble",
            "options",
            "__name__",
            "cached_code",
            "cached_codes",
        ],
    )
    def test_of_reductions_are_read_only(self, name: str) -> None:
        with pytest.raises(AttributeError):
            setattr(reduction(), name, None)

    def test_kwargs_is_a_copy(self) -> None:
        kernel = elementwise()
        kernel.kwargs["options"] = ("-DA",)
        assert kernel.kwargs["options"] == ()

    def test_kernels_compare_by_identity(self) -> None:
        kernel = reduction()
        assert kernel == kernel and kernel != reduction()
        assert len({kernel, reduction()}) == 2

    def test_documentation(self) -> None:
        assert "block_size" in str(elementwise().__call__.__doc__)
        assert elementwise().__doc__ == kspec.ElementwiseKernel.__doc__
        assert Doubler(2).__doc__ == "A kernel with attributes of its own."


def test_messages_call_arguments_by_their_names() -> None:
    with pytest.raises(kspec.SpecError) as caught:
        kspec.ReductionKernel("T x, T x", "T y,", "x;", " ", "y = (a", "0", "a b")
    assert str(caught.value).splitlines() == [
        "kernel 'a b' is declared wrongly:",
        "  name: Invalid kernel name 'a b': 'a b' is not a C identifier",
        "  in_params: two parameters are called 'x'; every parameter needs its own name",
        "  out_params: empty parameter; is there a comma too many?",
        "      T y,",
        "         ^",
        "  map_expr: must be an expression; leave out ';'",
        "      x;",
        "       ^",
        "  reduce_expr: must not be empty",
        "  post_map_expr: '(' is never closed",
        "      y = (a",
        "          ^",
    ]


class TestIdentity:
    def test_setting_it_declares_the_kernel_anew(self, place: ArrayDevice) -> None:
        kernel = reduction()
        x = place.array([1.0, 2.0])
        assert place.numpy(kernel(x)) == 5
        kernel.identity = 100
        assert kernel.identity == "100"
        assert place.numpy(kernel(x)) == 105
        assert "100" in kernel.cached_code

    def test_none(self, place: ArrayDevice) -> None:
        kernel = reduction()
        assert place.numpy(kernel(place.zeros(0))) == 0
        kernel.identity = None
        assert kernel.identity == ""
        with pytest.raises(ValueError, match="squares which has no identity"):
            kernel(place.zeros(0))

    def test_of_the_wrong_type_changes_nothing(self) -> None:
        kernel = reduction()
        with pytest.raises(TypeError, match="identity: must be a number or C"):
            kernel.identity = [1]
        assert kernel.identity == "0"


class TestSources:
    def test_are_there_after_the_first_call(self, place: ArrayDevice) -> None:
        kernel = elementwise(preamble="#define K 3")
        with pytest.warns(UserWarning, match="scale has no source yet"):
            assert kernel.cached_codes == {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(LookupError, match="call it once") as caught:
                _ = kernel.cached_code
            assert isinstance(caught.value, kspec.NotCompiledError)
            assert kernel._cached_codes == {}
            for x in (place.zeros(3, "float32"), place.zeros((3, 4), "float32")[:, ::2]):
                w = place.zeros(6)
                kernel(x, w, x, place.zeros(x.shape, "int8"))
            assert list(kernel.cached_codes) == [(F4, F8, F4, np.dtype("int8"))]
            assert "z = x * K; v = w[i]" in kernel.cached_code
            assert kernel.cached_code.startswith("//")

    def test_of_several_dtypes(self, place: ArrayDevice) -> None:
        kernel = reduction()
        kernel(place.zeros(3, "float32"))
        kernel(place.zeros(3))
        assert list(kernel.cached_codes) == [(F4, F4), (F8, F8)]
        with pytest.warns(UserWarning, match="compiled for 2 combinations of dtypes"):
            assert kernel.cached_code == kernel.cached_codes[F4, F4]

    def test_nothing_is_compiled_for_empty_arrays(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x", "nothing")
        kernel(place.zeros(0))
        with pytest.warns(UserWarning, match="nothing has no source yet"):
            assert not kernel.cached_codes


def call_in_child(kernel: Any, x: Any) -> tuple[Any, Any]:
    return kernel(x), getattr(kernel, "factor", None)


KERNELS = {
    "elementwise": kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice"),
    "reduction": reduction(),
    "subclass": Doubler(2),
}


class TestCopies:
    @pytest.mark.parametrize("name", KERNELS)
    @pytest.mark.parametrize("used", [False, True])
    def test_pickle(self, name: str, used: bool, place: ArrayDevice) -> None:
        kernel = KERNELS[name]
        x = place.array([1.0, 2.0, 3.0])
        expected = place.numpy(kernel(x)) if used else None
        again = pickle.loads(pickle.dumps(kernel))
        assert type(again) is type(kernel) and again != kernel
        assert again.declaration == kernel.declaration and again.__name__ == kernel.__name__
        assert (again.spec, again.__doc__) == (kernel.spec, kernel.__doc__)
        assert again._cached_codes == {}
        result = place.numpy(again(x))
        if used:
            np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
    def test_a_copy_shares_what_is_compiled(self, copied: Any, place: ArrayDevice) -> None:
        kernel = Doubler(3)
        x = place.array([1.0])
        kernel(x)
        again = copied(kernel)
        assert again != kernel and again.cached_codes == kernel.cached_codes
        assert place.numpy(again(x)) == [3]
        assert (again.factor, again.unit) == (3, "m")
        again.factor = 4
        assert kernel.factor == 3

    @pytest.mark.parametrize("pickled", [False, True])
    def test_equal_kernels_are_loaded_once(
        self, pickled: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On the host device, where a process may have so many mappings."""
        loaded: list[str] = []
        load = loader.load_module
        monkeypatch.setattr(
            loader,
            "load_module",
            lambda image, device, home=None: (
                loaded.append(device.kind),
                load(image, device, home),
            )[1],
        )
        x = np.arange(3.0)
        add = kspec.ElementwiseKernel("T x", "T y", f"y = x + {1 + pickled}", "loaded_once")
        for _ in range(3):
            np.testing.assert_array_equal(add(x), x + 1 + pickled)
            add = (
                pickle.loads(pickle.dumps(add))
                if pickled
                else kspec.ElementwiseKernel("T x", "T y", "y = x + 1", "loaded_once")
            )
        other = kspec.ElementwiseKernel("T x", "T y", "y = x - 1", "loaded_once")
        np.testing.assert_array_equal(other(x), x - 1)
        assert len(loaded) <= 2  # another test may have loaded them

    def test_a_copy_has_its_own_identity(self, place: ArrayDevice) -> None:
        kernel = reduction()
        again = copy.copy(kernel)
        again.identity = 7
        assert kernel.identity == "0"
        assert place.numpy(kernel(place.array([1.0]))) == 1
        assert place.numpy(again(place.array([1.0]))) == 8

    def test_checks_and_attributes_go_along(self) -> None:
        kernel = Doubler(2)
        kernel.checks = kspec.Checks("memory", order="random:3", timeout=5)
        again = pickle.loads(pickle.dumps(kernel))
        assert again.checks == kernel.checks
        assert (again.factor, again.unit) == (2, "m")

    def test_to_a_new_process(self) -> None:
        x = np.array([1.0, 2.0])
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            tasks = [pool.submit(call_in_child, kernel, x) for kernel in KERNELS.values()]
            results = [task.result(timeout=120) for task in tasks]
        np.testing.assert_array_equal(results[0][0], [2, 4])
        assert (results[1][0], results[2][1]) == (5, 2)
        np.testing.assert_array_equal(results[2][0], [2, 4])

    def test_raw_kernels_too(self, place: ArrayDevice) -> None:
        code = "template <class T> __global__ void inc(T* x) { x[threadIdx.x] += N; }"
        module = kspec.RawModule(code=code, name_expressions=["inc<float>"], options=("-DN=4",))
        kernel = module.get_function("inc<float>")
        kernel.checks = kspec.Checks(order="reverse") if place.is_host else None
        x = place.zeros(3, "float32")
        for one in (kernel, pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
            one((1,), (3,), (x,))
            assert one.checks == kernel.checks
        again = pickle.loads(pickle.dumps(module))
        again.get_function("inc<float>")((1,), (3,), (x,))
        np.testing.assert_array_equal(place.numpy(x), [16] * 3)


@kspec.fuse(device="host")
def shifted(x):
    return np.exp(x) + 1


@jit.rawkernel(device=True)
def cube(x):
    return x * x * x


@jit.rawkernel()
def cubed(x):
    x[jit.threadIdx.x] = cube(x[jit.threadIdx.x])


def tripled(x):
    x[jit.threadIdx.x] *= 3


class Holder:
    """What has a fused function as a method."""

    @kspec.fuse(device="host")
    def shift(self, x):
        return x + 1


class TestDecoratedFunctions:
    """They take the place of functions, and are pickled and copied as these are."""

    @pytest.mark.parametrize("one", [shifted, cube, cubed, Holder.shift])
    def test_by_name(self, one: Any) -> None:
        assert pickle.loads(pickle.dumps(one)) is one
        assert copy.copy(one) is one and copy.deepcopy([one])[0] is one

    def test_to_a_new_process(self) -> None:
        x = np.arange(3.0)
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found = pool.submit(shifted, x).result()
        np.testing.assert_allclose(found, np.exp(x) + 1)

    def test_local_functions(self) -> None:
        """A copy is the function itself; it cannot be pickled, as no local function can."""

        def double(x):
            x[jit.threadIdx.x] *= 2

        for made in (kspec.fuse(double), jit.rawkernel()(double)):
            assert copy.deepcopy([made])[0] is made
            with pytest.raises((AttributeError, pickle.PicklingError), match="local object"):
                pickle.dumps(made)

    def test_functions_with_another_name(self, place: ArrayDevice) -> None:
        """They are pickled as what they were made of."""
        made = pickle.loads(pickle.dumps(jit.rawkernel(mode="numpy")(tripled)))
        assert made.mode == "numpy"
        x = place.array(np.arange(3.0))
        made((1,), (3,), (x,))
        np.testing.assert_array_equal(place.numpy(x), [0, 3, 6])


GENERATED = """
import copy, pickle
import numpy as np
from kspec_kernels import norms

# Functions are pickled by name; the objects behind them know where their images are.
assert pickle.loads(pickle.dumps(norms.l2norm)) is norms.l2norm
x = np.array([[3.0, 4.0]])
kernel = pickle.loads(pickle.dumps(norms._l2norm))
assert kernel(x, axis=1) == norms.l2norm(x, axis=1) == copy.deepcopy(kernel)(x, axis=1) == 5
print(kernel.name, kernel.nin, *kernel.params, list(kernel.cached_codes), "x * x" in kernel.cached_code)
"""


def test_kernels_of_generated_packages() -> None:
    printed = run_python(f"{BLOCKED}{GENERATED}", ROOT / "generated", ROOT)
    assert printed.strip() == f"l2norm 1 T x T y {[(F8, F8)]} True"


def test_their_repr_has_the_signature() -> None:
    add = kspec.ElementwiseKernel("T x, raw U y", "T z", "z = x + y[i]", "add")
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
    assert repr(add) == "<elementwise kernel add(T x, raw U y) -> (T z)>"
    assert repr(total) == "<reduction kernel total(T x) -> (T y)>"
