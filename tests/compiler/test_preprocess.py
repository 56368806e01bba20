"""Text for the preprocessor, and whose text is in its output."""

import pytest

from kspec.compiler.host.preprocess import line_markers, prepare, user_spans


def test_includes_are_listed():
    text = '#include <cmath>\n # include "kspec/array.cuh" // mine\n// #include <no>'
    prepared = prepare(text)
    assert prepared.includes == {"cmath", "kspec/array.cuh"} and prepared.text == text


def test_refused_headers_are_errors_in_their_place():
    prepared = prepare("int a;\n#include \\\n  <x>\n  #include <cub/cub.cuh>  // sums\nint b;\n")
    lines = prepared.text.split("\n")
    assert lines[3].startswith("#error cub device code cannot run on the host device; guard it")
    assert lines[4] == "int b;"


@pytest.mark.parametrize(
    "text",
    [
        '/*\n#include <cub/cub.cuh>\n*/\nauto s = R"(\n#include <cub/cub.cuh>\n)";\n',
        "#include <cuda/std/complex>\n#define DEVICE __device__\n#define __my_own__\n",
        "#define __global__name 3\n",
    ],
)
def test_other_text_is_left_alone(text):
    assert prepare(text).text == text


def test_keywords_cannot_be_defined_away():
    text = (
        "#ifndef __CUDACC__\n#define __global__\n#define __launch_bounds__(...) \\\n  \n#endif\nx"
    )
    assert prepare(text).text == "#ifndef KSPEC_CUDA\n\n\n\n#endif\nx"


def test_spans_of_the_user():
    pieces = {
        '# 1 "k.cu"\nint a;\n': True,
        '# 1 "/usr/include/math.h" 1 3 4\nint b;\n': False,
        '# 7 "/usr/include/bits/x.h" 1 3 4\nint c;\n': False,
        '# 2 "/usr/include/math.h" 2 3 4\n': False,
        '# 2 "k.cu" 2\nint d;\n': True,
        '# 9 "spec \\"x\\".toml"\nint e;\n': True,
        '# 1 "/toolkit/y.h" 1\nint f;\n': False,
        '# 1 "mine.cuh" 1\nint g;\n': True,
        '# 2 "/toolkit/y.h" 2\nint h;\n': False,
        '# 10 "k.cu" 2\nint i;\n': True,
    }
    text = "".join(pieces)
    markers = line_markers(text)
    spans = user_spans(markers, len(text), ("/toolkit/",))
    kept = "".join(text[start:end] for start, end in spans)
    assert kept == "".join(piece for piece, mine in pieces.items() if mine)
    assert [marker.path for marker in markers][6] == 'spec "x".toml'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#ifdef __CUDACC__\n#endif", "#ifdef KSPEC_CUDA\n#endif"),
        (
            "#if defined(__CUDACC__) && !defined __CUDA_ARCH__",
            "#if defined(KSPEC_CUDA) && !defined __CUDA_ARCH__",
        ),
        (
            "#if defined( __CUDA_ARCH__ ) && (__CUDA_ARCH__ < 600)",
            "#if defined( __CUDA_ARCH__ ) && (KSPEC_CUDARCH < 600)",
        ),
        (
            "#if __CUDACC_VER_MAJOR__ >= 11 && \\\n  __CUDA_ARCH__ >= 530",
            "#if KSPEC_CUDA_VER_MAJOR >= 11 && \\\n  KSPEC_CUDARCH >= 530",
        ),
        ("int a = __CUDA_ARCH__; // __CUDACC__", "int a = KSPEC_CUDARCH; // __CUDACC__"),
        *(2 * (one,) for one in ("#ifdef __CUDA_ARCH__", "#ifndef __CUDA_ARCH__")),
        *(2 * (one,) for one in ("#define __CUDA_ARCH__ 3", 'f("__CUDA_ARCH__", my__CUDACC__)')),
    ],
)
def test_macros_of_cudas_compilers(text, expected):
    assert prepare(text).text == expected
