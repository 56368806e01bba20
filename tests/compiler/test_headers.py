"""Which headers a text needs: ours and the user's are carried, the toolkit's found and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kspec.compiler import compile_source, headers, image_key
from kspec.compiler.cuda import nvrtc
from kspec.compiler.headers import (
    carry_headers,
    collect_headers,
    missing_includes,
    toolkit_dirs_for,
    toolkit_include_dirs,
    toolkit_version,
)
from kspec.errors import ToolNotFoundError
from kspec.model.stages import FLAT, HOST, CudaSource, Header, Specialization, Target
from kspec.pipeline import LazySource
from kspec.spec.building import build_spec
from kspec.spec.models import ElementwiseSpec


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for kspec/include, so that these tests do not depend on its content."""
    directory = tmp_path / "package"
    directory.mkdir()
    monkeypatch.setattr(headers, "package_include_dir", lambda: directory)
    return directory


def write(directory: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def names(found: tuple[Header, ...]) -> list[str]:
    return [header.name for header in found]


def test_the_packages_own_headers_lie_beside_the_code() -> None:
    assert headers.package_include_dir() == Path(headers.__file__).parent.parent / "include"


def test_nested_in_the_order_of_inclusion(package: Path, tmp_path: Path) -> None:
    write(package, {"kspec/a.cuh": "#include <kspec/b.cuh>\n", "kspec/b.cuh": "// b\n"})
    user = write(
        tmp_path / "user",
        {"mine.cuh": '#include "kspec/b.cuh"\n  #  include "deep/x.cuh"\n', "deep/x.cuh": "// x\n"},
    )
    found = collect_headers('#include "mine.cuh"\n#include "kspec/a.cuh"\n', [user]).headers
    assert names(found) == ["mine.cuh", "kspec/b.cuh", "deep/x.cuh", "kspec/a.cuh"]
    assert found[1].text == "// b\n"
    assert found == collect_headers('#include "mine.cuh"\n#include "kspec/a.cuh"\n', [user]).headers


def test_cycles_end(package: Path) -> None:
    write(package, {"a.cuh": '#include "b.cuh"\n', "b.cuh": '#include "a.cuh"\n#include "b.cuh"\n'})
    assert names(collect_headers('#include "a.cuh"', []).headers) == ["a.cuh", "b.cuh"]


def test_toolkit_and_macro_includes_are_left_out(package: Path) -> None:
    text = "#include <cuda_fp16.h>\n#include MACRO\n// #include \n"
    assert collect_headers(text, []).headers == ()


def test_the_packages_headers_win_over_the_users(package: Path, tmp_path: Path) -> None:
    write(package, {"kspec/a.cuh": "// ours"})
    user = write(tmp_path / "user", {"kspec/a.cuh": "// theirs"})
    assert collect_headers('#include "kspec/a.cuh"', [user]).headers[0].text == "// ours"


def test_a_header_beside_its_includer_is_respelled(package: Path) -> None:
    write(
        package,
        {
            "lib/a.cuh": '#include "b.cuh" // sibling\n#include "../c.cuh"\n',
            "lib/b.cuh": "// b\n",
            "c.cuh": "// c\n",
        },
    )
    found = collect_headers('#include "lib/a.cuh"', []).headers
    assert names(found) == ["lib/a.cuh", "lib/b.cuh", "c.cuh"]
    assert found[0].text == '#include "lib/b.cuh" // sibling\n#include "c.cuh"\n'


def test_a_header_outside_its_directory_is_respelled(package: Path, tmp_path: Path) -> None:
    user = write(tmp_path / "user", {"a.cuh": '#include "../b.cuh"\n'})
    write(tmp_path, {"b.cuh": "// b\n", "c.cuh": "// c\n"})
    found = collect_headers(f'#include "a.cuh"\n#include "{tmp_path}/c.cuh"\n', [user])
    assert names(found.headers) == ["a.cuh", "_up/b.cuh", f"_root{tmp_path}/c.cuh"]
    assert found.headers[0].text == '#include "_up/b.cuh"\n'
    assert found.texts == (f'#include "a.cuh"\n#include "_root{tmp_path}/c.cuh"\n',)


def test_same_name_in_two_directories(package: Path, tmp_path: Path) -> None:
    one = write(
        tmp_path / "one", {"a/x.cuh": '#include "detail.cuh"\n', "a/detail.cuh": "#define A 1\n"}
    )
    two = write(
        tmp_path / "two", {"b/x.cuh": '#include "detail.cuh"\n', "b/detail.cuh": "#define B 2\n"}
    )
    found = collect_headers('#include "a/x.cuh"\n#include "b/x.cuh"\n', [one, two]).headers
    assert names(found) == ["a/x.cuh", "a/detail.cuh", "b/x.cuh", "b/detail.cuh"]


def test_same_path_in_two_directories(package: Path, tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"k/detail.cuh": "#define V 1\n"})
    two = write(
        tmp_path / "two", {"k/x.cuh": '#include "detail.cuh"\n', "k/detail.cuh": "#define W 2\n"}
    )
    text = (
        '#include "k/detail.cuh"\n#include "k/x.cuh"\n'
        'extern "C" __global__ void k(int* x) { x[0] = V * 100 + W; }'
    )
    found = collect_headers(text, [one, two]).headers
    assert names(found) == ["k/detail.cuh", "k/x.cuh", "_2/k/detail.cuh"]
    ptx = nvrtc.compile_cuda(CudaSource("k.cu", text, headers=found), Target("compute_80")).code
    assert b", 102;" in ptx


def test_angle_brackets_do_not_look_beside_the_includer(package: Path) -> None:
    write(package, {"lib/a.cuh": "#include <b.cuh>\n", "lib/b.cuh": "// b\n"})
    assert names(collect_headers('#include "lib/a.cuh"', []).headers) == ["lib/a.cuh"]


def test_carry_looks_where_the_options_say(package: Path, tmp_path: Path) -> None:
    user = write(tmp_path / "user", {"mine.cuh": "// mine\n"})
    source = CudaSource("a.cu", '#include "mine.cuh"\n', options=(f"-I{user}",))
    carried = carry_headers(source)
    assert carried.headers == (Header("mine.cuh", "// mine\n"),)
    assert carry_headers(carried) is carried


def test_carry_keeps_what_is_carried_and_adds_what_that_includes(package: Path) -> None:
    write(package, {"a.cuh": "// on disk", "b.cuh": "// b"})
    given = Header("a.cuh", '#include "b.cuh"\n')
    carried = carry_headers(CudaSource("a.cu", '#include "a.cuh"\n', headers=(given,)))
    assert carried.headers == (given, Header("b.cuh", "// b"))


def test_missing_includes() -> None:
    source = CudaSource(
        "a.cu",
        '#include "b.cuh"\n#include <cuda_fp16.h>\n',
        headers=(Header("b.cuh", "#include <cub/block/block_reduce.cuh>\n"),),
    )
    assert missing_includes(source) == ("cub/block/block_reduce.cuh", "cuda_fp16.h")


def toolkit(directory: Path, version: int) -> Path:
    text = f"#define CUDART_VERSION  {version}\n"
    return write(directory, {"cuda_runtime_api.h": text, "cuda_fp16.h": "", "cccl/cub/x.cuh": ""})


@pytest.fixture
def located(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    directory = toolkit(tmp_path / "cuda", 12090)
    places = {"cudart": directory, "cccl": directory / "cccl"}
    monkeypatch.setattr(headers, "find_headers", places.get)
    return directory


def test_toolkit_directories(located: Path) -> None:
    assert toolkit_include_dirs((12, 9)) == (located, located / "cccl")


def test_toolkit_of_another_version_is_refused(located: Path) -> None:
    with pytest.raises(ToolNotFoundError) as caught:
        toolkit_include_dirs((13, 0))
    message = str(caught.value)
    assert "NVRTC is version 13.0" in message and "are version 12.9" in message
    assert str(located) in message and "kspec[cu13]" in message


def test_toolkit_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "find_headers", lambda library: None)
    with pytest.raises(ToolNotFoundError, match=r"not installed: pip install 'kspec\[cu13\]'"):
        toolkit_include_dirs((13, 0))
    assert toolkit_dirs_for(CudaSource("a.cu", "#include <cuda_fp16.h>\n"), (13, 0)) == ()


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("", False),
        ("#include <cuda_fp16.h>\n", True),
        ("#include <cub/x.cuh>\n", True),
        ("#include <cmath>\n", False),
    ],
)
def test_toolkit_is_consulted_only_for_its_headers(located: Path, text: str, needed: bool) -> None:
    found = toolkit_dirs_for(CudaSource("a.cu", text), (12, 9))
    assert found == ((located, located / "cccl") if needed else ())


def test_a_mismatch_does_not_matter_where_no_toolkit_header_is_used(located: Path) -> None:
    assert toolkit_dirs_for(CudaSource("a.cu", "#include <cmath>\n"), (13, 0)) == ()
    with pytest.raises(ToolNotFoundError):
        toolkit_dirs_for(CudaSource("a.cu", "#include <cuda_fp16.h>\n"), (13, 0))


def test_the_users_toolkit_is_searched_not_carried(located: Path, tmp_path: Path) -> None:
    own = toolkit(tmp_path / "own", 13000)
    source = CudaSource("a.cu", "#include <cuda_fp16.h>\n", options=(f"-I{own}",))
    assert carry_headers(source) is source
    assert toolkit_dirs_for(source, (13, 0)) == (own, own / "cccl")


def test_installed_toolkit_compiles_half() -> None:
    version = nvrtc.nvrtc_version()
    text = "#include <cuda_fp16.h>\n__global__ void k(__half* x) { x[0] = __hadd(x[1], x[2]); }"
    source = CudaSource("h.cu", text)
    directories = toolkit_dirs_for(source, version)
    assert toolkit_version(directories).startswith(f"cudart {version[0]}.{version[1]}, cccl ")
    assert nvrtc.compile_cuda(source, Target("sm_80"), directories).code[:4] == b"\x7fELF"


class TestOfCuPy:
    """Headers under ``cupy/``: kspec's own first, then those of an installed CuPy."""

    @pytest.fixture
    def installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        files = {
            "cupy/complex.cuh": "#error not this one\n",
            "cupy/xsf/special.h": '#pragma once\n#include "tools.h"\n#include <cupy/complex.cuh>\n',
            "cupy/xsf/tools.h": "__device__ inline int tool() { return 3; }\n",
            "cupy/xsf/complex.h": "typedef thrust::complex<float> number; struct Two { float16 a, b; };",
        }
        include = write(tmp_path / "site" / "cupy" / "_core" / "include", files)
        (tmp_path / "site" / "cupy" / "__init__.py").write_text("raise RuntimeError('imported')\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        headers.cupy_include_dirs.cache_clear()
        yield include
        headers.cupy_include_dirs.cache_clear()

    def test_without_clash_or_import(self, installed: Path) -> None:
        text = "#include <cupy/xsf/special.h>\n__global__ void k(int* x) { *x = tool(); }\n"
        source = carry_headers(CudaSource("k.cu", text, ("k",)), Target("sm_90"))
        found = {header.name: header.text for header in source.headers}
        assert "cupy/xsf/tools.h" in found
        assert "not this one" not in found["cupy/complex.cuh"]
        for target in (HOST, Target("sm_90")):
            assert set(compile_source(source, target).symbols) == {"k"}

    def test_generated_kernels_have_what_such_headers_need(self, installed: Path) -> None:
        preamble = "#include <cupy/xsf/complex.h>"
        spec = build_spec(
            ElementwiseSpec,
            name="k",
            inputs="float32 x",
            outputs="float32 y",
            operation="y = abs(number(x, sizeof(Two)))",
            preamble=preamble,
        )
        wanted = Specialization("k", (), FLAT)
        for target in (HOST, Target("sm_90")):
            image = compile_source(LazySource(spec)(wanted), target)
            assert set(image.symbols) == {wanted.name_expression}

    def test_their_text_is_in_the_key(self, installed: Path) -> None:
        source = CudaSource("k.cu", "#include <cupy/xsf/special.h>\n", ())
        before = image_key(source, Target("sm_90"))
        (installed / "cupy" / "xsf" / "tools.h").write_text("// another\n")
        assert image_key(source, Target("sm_90")) != before

    def test_only_for_those_who_include_them(self, installed: Path) -> None:
        source = carry_headers(CudaSource("k.cu", '#include "tools.h"\n', ()), Target("sm_90"))
        assert source.headers == ()
