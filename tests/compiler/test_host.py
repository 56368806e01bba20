"""Compiling for the host: symbols, messages at #line positions, refusals, finding a compiler."""

import dataclasses
from pathlib import Path

import pytest

from kspec.compiler.cuda import find_headers
from kspec.compiler.host import find_compiler
from kspec.compiler.host.compile import compile_host, fingerprint
from kspec.errors import CompileError
from kspec.model.stages import CudaSource, Header, Target
from tests.compiling import compiled


def error_of(text: str, *names: str, headers: tuple[Header, ...] = ()) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_host(CudaSource("norms.cu", text, names, headers))
    assert caught.value.target == "host" and caught.value.source == text
    assert "/tmp" not in caught.value.log and "kspec_unit.cpp" not in caught.value.log
    return caught.value


def test_image():
    text = 'template <class T> __global__ void k(T* x) {}\nextern "C" __global__ void plain() {}'
    image = compile_host(CudaSource("norms.cu", text, ("k<float>", "k<int>")))
    assert (image.format, image.arch, image.log) == ("so", "host", "")
    assert set(image.symbols) == {"k<float>", "k<int>", "plain"}
    assert len(set(image.symbols.values())) == 3
    assert all(symbol.startswith("kspec_entry_") for symbol in image.symbols.values())


def test_equal_sources_make_equal_images():
    source = CudaSource(
        "norms.cu", 'extern "C" __global__ void k(int* x) { __shared__ int s; s = *x; }'
    )
    assert compile_host(source).code == compile_host(source).code


def test_error_position_honours_line_directives():
    text = (
        'extern "C" __global__ void k(float* x) {\n#line 42 "specs/norms.toml"\n  x[0] = foo(1);\n}'
    )
    assert error_of(text).log.count("specs/norms.toml:42:10: error: ") == 1
    text = (
        'extern "C" __global__ void k(float* x) {\n  __shared__ int\n    s[3];\n  x[0] = foo(1);\n}'
    )
    assert "norms.cu:4:10: error: " in error_of(text).log


def test_error_in_a_header():
    header = Header("deep/broken.cuh", "#pragma once\nint f() { return nothing; }")
    log = error_of('#include "deep/broken.cuh"', headers=(header,)).log
    assert "deep/broken.cuh:2:18: error: " in log


@pytest.mark.parametrize(
    ("options", "year"),
    [((), 2017), (("-std=c++20",), 2020), (("--std=c++20",), 2020), (("-std", "c++20"), 2020)],
)
def test_the_standard_that_options_ask_for(options: tuple[str, ...], year: int):
    text = f"static_assert(__cplusplus / 100 == {year});\n__global__ void k(int* x) {{}}"
    assert compile_host(CudaSource("k.cu", text, ("k",), options=options)).symbols


def test_wrong_name_expression():
    log = error_of("template <class T> __global__ void k(T* x) {}", "q<float>").log
    assert "error: no kernel fits the name expression 'q<float>' (the code has: k): " in log


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (2, '\nextern "C" __global__ void k(int* x) { asm volatile("mov.u32 %0, %laneid;" : "=r"(x[0])); }',
         "error: inline PTX (asm) cannot run on the host device; guard it with '#ifndef KSPEC_HOST' and "
         "give a C++ alternative, such as CUDA's own functions (__shfl_sync"),
        (3, 'extern "C" __global__ void c() {}\nextern "C" __global__ void k() {\n  c<<<1, 1>>>();\n}',
         "error: a kernel launch from device code (<<<...>>>) cannot run on the host device"),
        (1, "#include <cub/cub.cuh>\n", "give a C++ alternative, such as reduce and inclusive_scan of"),
        (1, "#include <curand_kernel.h>\n", "(Philox), or pass an array of random numbers"),
        (2, "\n#include <thrust/sort.h>\n", "thrust device code cannot run on"),
        (1, "#include <mma.h>\n", "tensor core (mma.h) device code cannot run on"),
        (2, '#define LANE(x) asm("mov.u32 %0, %laneid;" : "=r"(x))\n'
         'extern "C" __global__ void k(int* x) { LANE(x[0]); }', "error: inline PTX (asm) cannot run on"),
    ],
)  # fmt: skip
def test_refusals_say_where_and_what_to_do(line, text, words):
    error = error_of(text)
    assert words in error.log
    assert error.log.startswith(f"norms.cu:{line}:")
    assert error.log.count("error: ") == 1
    assert error.diagnostics[0].source_line == text.splitlines()[line - 1]


def test_a_size_of_a_shared_array_that_is_unknown():
    error = error_of('extern "C" __global__ void k() {\n  __shared__ float tile[SIZE];\n}')
    assert error.log.startswith("norms.cu:2:25: error: ") and "SIZE" in error.log
    assert "kspec_" not in error.log


def test_names_that_nvcc_has_without_an_include():
    text = 'extern "C" __global__ void k(double* x) { uint n = INT_MAX; x[0] = INFINITY + M_PI * sqrt(n); }'
    assert compile_host(CudaSource("k.cu", text, backend="nvcc")).symbols
    with pytest.raises(CompileError, match="INFINITY"):
        compile_host(CudaSource("k.cu", text))


def test_a_toolkit_that_options_name():
    toolkit = find_headers("cudart")
    if toolkit is None:
        pytest.skip("CUDA's headers are not installed")
    text = """
    #include <cuda/std/limits>
    extern "C" __global__ void k(float* x) {
      x[0] = cuda::std::numeric_limits<float>::max() + make_char2(1, 2).y;
    }
    """
    assert compiled(CudaSource("k.cu", text, options=(f"-I{toolkit}",)), Target("host")).symbols


def test_layered_textures_and_clusters_are_refused():
    text = 'extern "C" __global__ void k(cudaTextureObject_t t, float* x) {\n'
    error = error_of(text + "  x[0] = tex2DLayered<float>(t, 0, 0, 0);\n}")
    assert "tex2DLayered() cannot run on the host device; guard it" in error.log
    text = "#include <cooperative_groups.h>\n__global__ void k(int* x) {\n"
    error = error_of(text + "  auto c = cooperative_groups::this_cluster();\n}")
    assert "a cluster cannot run on the host device; guard it" in error.log
    error = error_of("\n__global__ void __cluster_dims__(2, 1, 1) k(int* x) { x[0] = 1; }")
    assert "norms.cu:2" in error.log and "a thread block cluster cannot run on" in error.log


@pytest.mark.parametrize(
    "header",
    ["cuda/ptx", "cuda/barrier", "cuda/pipeline", "cuda_pipeline.h", "curand_kernel.h",
     "thrust/sort.h", "cooperative_groups/memcpy_async.h", "cuda/std/semaphore"],
)  # fmt: skip
def test_headers_that_are_refused(header):
    error = error_of(f"\n#include <{header}>\n")
    assert "norms.cu:2" in error.log and "cannot run on the host device; guard it" in error.log


@pytest.mark.parametrize(
    "text",
    [
        '#ifndef KSPEC_HOST\n#include <cub/cub.cuh>\n__device__ void f() { asm("exit;"); }\n#endif',
        '#ifdef __CUDA_ARCH__\n__device__ void f() { asm("exit;"); }\n#endif',
        '#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\nvoid f() { asm("exit;"); }\n#endif',
        '#ifdef KSPEC_HOST\n#else\n__device__ void f() { asm("exit;"); }\n#endif',
        '// asm("exit;") <<<1, 1>>>\nconst char* s = "asm(1) <<<1>>>"; /* #include <cub/cub.h> */',
    ],
)
def test_guarded_regions_are_not_refused(text):
    image = compile_host(CudaSource("norms.cu", text + '\nextern "C" __global__ void k() {}'))
    assert "k" in image.symbols


def test_branches_of_the_preprocessor():
    text = '#if 1\nextern "C" __global__ void k(int* x) {\n#else\nextern "C" __global__ void k(long* x) {\n#endif\n*x = 1; }'
    text += '\n#ifdef NEVER\nextern "C" __global__ void never() {}\n#endif\nextern "C" __global__ void last() {}'
    assert set(compile_host(CudaSource("norms.cu", text)).symbols) == {"k", "last"}


def test_fingerprint():
    compiler = find_compiler()
    assert fingerprint(compiler) == fingerprint(find_compiler())
    for other in ({"identity": "another version"}, {"settings": "other flags"}):
        assert fingerprint(compiler) != fingerprint(dataclasses.replace(compiler, **other))


def test_the_optimization_level(monkeypatch):
    """The compiler gets it, and it is in the key."""
    text = 'extern "C" __global__ void k(int* x) { int twice = x[0] + x[0]; x[1] = twice; }'
    source, codes, prints = CudaSource("k.cu", text), set(), set()
    for level in ("0", "1", "3"):
        monkeypatch.setenv("KSPEC_HOST_OPT", level)
        codes.add(compile_host(source).code)
        prints.add(fingerprint(find_compiler()))
    assert len(codes) >= 2 and len(prints) == 3
    monkeypatch.delenv("KSPEC_HOST_OPT")
    assert compile_host(source).code in codes and fingerprint(find_compiler()) in prints


def test_headers_can_not_leave_the_source():
    with pytest.raises(CompileError, match="leads out of the source"):
        compile_host(CudaSource("norms.cu", "", headers=(Header("../../x.h", ""),)))


@pytest.mark.parametrize(
    "options", [("-DN=3",), ("-D", "N=3"), ("--define-macro=N=3",), ("--define-macro", "N=3")]
)
def test_macros_in_every_spelling(options: tuple[str, ...]) -> None:
    text = 'static_assert(N == 3, "N"); __global__ void k(int* x) { *x = N; }'
    source = CudaSource("k.cu", text, name_expressions=("k",), options=options)
    assert compile_host(source).symbols == {"k": "kspec_entry_0"}


def test_debug_option_keeps_local_variables():
    text = 'extern "C" __global__ void k(int* x) { int kept_variable = x[0] + 1; x[1] = kept_variable; }'
    plain = compile_host(CudaSource("k.cu", text))
    debug = compile_host(CudaSource("k.cu", text, options=("-G",)))
    assert b"kept_variable" in debug.code and b"kept_variable" not in plain.code


def test_carried_headers_and_the_dialect_come_before_what_options_name(tmp_path: Path) -> None:
    for name in ("mine.cuh", "cuda_fp16.h"):
        (tmp_path / name).write_text("#error not this one\n")
    (tmp_path / "cuda_runtime_api.h").write_text("// a toolkit\n")
    source = CudaSource(
        "k.cu",
        '#include "mine.cuh"\n#include <cuda_fp16.h>\n__device__ __half one = MINE;\n',
        headers=(Header("mine.cuh", "#define MINE 1.0f\n"),),
        options=(f"-I{tmp_path}",),
    )
    assert "one" in compile_host(source).symbols
