"""No header that a compiler reads is missing in the key, however the text names it."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kspec.compiler import ImageCache, compile_source, image_key
from kspec.errors import CompileError, SpecError
from kspec.model.stages import HOST, CudaSource, Target

PTX = Target("compute_80")
KERNEL = '\nextern "C" __device__ int answer[VALUE] = {1};\n'
BOTH = {
    "macro": '#define H "value.cuh"\n#include H',
    "macro of a macro": "#define H <value.cuh>\n#define G H\n#include G // G",
    "macro that is defined twice": '#if 0\n#define H "none.h"\n#else\n#define H "value.cuh"\n#endif\n'
    "#include H",
    "macro of a header": '#include "names.cuh"\n#include FROM_HEADER',
    "comment in front": '/* a */ #include "value.cuh"',
    "comment of several lines": '/* a\n b */#include "value.cuh"',
    "comment inside": '# /**/ include /* "none.h" */ "value.cuh"',
    "comment behind": '#include "value.cuh"// the value',
    "continued word": '#inc\\\nlude "value.cuh"',
    "continued line": '#include \\\n  "value.cuh"',
    "digraph": '%:include "value.cuh"',
    "form feed": '\f#include "value.cuh"',
    "next": '#include "first.cuh"',
    "question": '#if __has_include("value.cuh")\n#include <value.cuh>\n#endif',
    "behind a raw string": 'constexpr auto* s = R"(/*)";\n#include "value.cuh"',
}
CASES = [
    *((name, text, (), target) for name, text in BOTH.items() for target in (HOST, PTX)),
    *(
        ("macro of the options", "#include H", (option,), target)
        for option in ('-DH="value.cuh"', "--define-macro=H=<value.cuh>")
        for target in (HOST, PTX)
    ),
    ("import", '#import "value.cuh"', (), HOST),
    *(
        ("in front", "", options, target)
        for options in (
            ("-include=value.cuh",),
            ("--pre-include=value.cuh",),
            ("-include", "value.cuh"),
            ("-include", "value.cuh", "-DUNUSED"),
        )
        for target in (HOST, PTX)
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two folders of headers; `value.cuh` of the second is tested."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (first / "first.cuh").write_text("#include_next <first.cuh>\n")
    (second / "first.cuh").write_text('#include "value.cuh"\n')
    (second / "names.cuh").write_text('#define FROM_HEADER "value.cuh"\n')
    return tmp_path


def write(folder: Path, value: int) -> None:
    (folder / "second/value.cuh").write_text(f"#define VALUE {value}\n")


def source_of(folder: Path, text: str, *options: str) -> CudaSource:
    dirs = (f"-I{folder / 'first'}", "-I", str(folder / "second"))
    return CudaSource("k.cu", text + KERNEL, options=(*dirs, *options))


def size(code: bytes, target: Target, folder: Path) -> int:
    """Return the elements of the variable in an image."""
    if target is PTX:
        return int(code.partition(b"answer[")[2].partition(b"]")[0]) // 4
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    path = folder / "image.so"
    path.write_bytes(code)
    listed = subprocess.run(["nm", "-S", path], capture_output=True, text=True, check=True).stdout
    (row,) = (line.split() for line in listed.splitlines() if line.endswith(" answer"))
    return int(row[1], 16) // 4


@pytest.mark.parametrize(
    ("text", "options", "target"),
    [pytest.param(*rest, id=f"{name}-{rest[-1]}") for name, *rest in CASES],
)
def test_an_edited_header_is_compiled(
    text: str, options: tuple[str, ...], target: Target, folder: Path
) -> None:
    source, cache = source_of(folder, text, *options), ImageCache(folder / "cache")
    for value in (21, 43):
        write(folder, value)
        code = compile_source(source, target, cache).code
        assert size(code, target, folder) == value


@pytest.mark.parametrize("target", [HOST, PTX], ids=str)
class TestOfBoth:
    """The host device and NVRTC."""

    def test_a_header_that_comes_later(self, target: Target, folder: Path) -> None:
        text = (
            '#if __has_include(<value.cuh>)\n#include "value.cuh"\n#else\n#define VALUE 7\n#endif'
        )
        source, cache = source_of(folder, text), ImageCache(folder / "cache")
        assert size(compile_source(source, target, cache).code, target, folder) == 7
        write(folder, 9)
        assert size(compile_source(source, target, cache).code, target, folder) == 9

    def test_a_header_in_front_of_another(self, target: Target, folder: Path) -> None:
        write(folder, 5)
        source, cache = source_of(folder, '#include "value.cuh"'), ImageCache(folder / "cache")
        assert size(compile_source(source, target, cache).code, target, folder) == 5
        (folder / "first/value.cuh").write_text("#define VALUE 6\n")
        assert size(compile_source(source, target, cache).code, target, folder) == 6

    @pytest.mark.parametrize(
        "text",
        [
            "#define S(x) #x\n#include S(value.cuh)",
            "#define S(x) #x\n#define H S(value.cuh)\n#include H",
            "#include UNDEFINED",
            '\n#embed "value.cuh"',
        ],
    )
    def test_what_no_scanner_finds_is_refused(
        self, text: str, target: Target, folder: Path
    ) -> None:
        write(folder, 5)
        with pytest.raises(
            CompileError, match="keys of the cache need the name of each header"
        ) as caught:
            compile_source(source_of(folder, text), target)
        assert any(line in str(caught.value) for line in ("k.cu:", "k.cu("))

    def test_but_only_where_it_is_read(self, target: Target, folder: Path) -> None:
        write(folder, 5)
        text = '#ifdef NEVER\n#include NEVER\n#endif\n#include "value.cuh"'
        assert size(compile_source(source_of(folder, text), target).code, target, folder) == 5

    def test_a_header_beside_the_process_is_not_found(
        self, target: Target, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(folder, 5)
        monkeypatch.chdir(folder / "second")
        with pytest.raises(CompileError, match=r"value\.cuh"):
            compile_source(CudaSource("k.cu", '#include "value.cuh"' + KERNEL), target)

    def test_where_the_folders_are_does_not_matter(self, target: Target, folder: Path) -> None:
        write(folder, 5)
        (folder / "moved").symlink_to(folder / "second")
        text = '#include "value.cuh"' + KERNEL
        keys = {
            image_key(CudaSource("k.cu", text, options=(f"-I{folder / name}",)), target)
            for name in ("second", "moved")
        }
        assert len(keys) == 1

    def test_what_is_text_is_left_alone(self, target: Target, folder: Path) -> None:
        """Strings and comments name no headers, and macros of other names are none."""
        write(folder, 5)
        text = '#include "value.cuh"\n/*\n#include "/none.h"\n#include H\n*/ // #include G\n'
        text += (
            'constexpr const char* s = "#include H";\nconstexpr auto* r = R"(\n#include H\n)";\n'
        )
        text += 'static_assert(r[1] == 35 && s[0] == 35, "");'
        assert size(compile_source(source_of(folder, text), target).code, target, folder) == 5


def test_folders_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = (
        CudaSource("k.cu", "#include <value.cuh>" + KERNEL),
        ImageCache(folder / "cache"),
    )
    monkeypatch.setenv("CPATH", str(folder / "second"))
    for value in (21, 43):
        write(folder, value)
        assert size(compile_source(source, HOST, cache).code, HOST, folder) == value


def toolkit(folder: Path, files: dict[str, str]) -> Path:
    """Write a folder that is left to the compiler."""
    place = folder / "library"
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def test_the_path_of_a_macro_that_a_toolkit_includes(folder: Path) -> None:
    """Headers of a toolkit are not read, so what they include may be any file."""
    write(folder, 5)
    place = toolkit(folder, {"cuda_runtime_api.h": "", "any.h": "#include ANY\n"})
    text = f'#define ANY "{folder}/second/value.cuh"\n#include <any.h>'
    with pytest.raises(CompileError, match=r"value\.cuh, which is in no folder that -I names"):
        compile_source(CudaSource("k.cu", text + KERNEL, options=(f"-I{place}",)), HOST)


@pytest.mark.parametrize("target", [HOST, PTX], ids=str)
def test_the_users_own_cccl(target: Target, folder: Path) -> None:
    """It is searched by the compiler, for its headers have macros as names, and keyed as a whole."""
    macros = {
        "cub/version.cuh": "",
        "cuda/std/own": "#define CAT(x) <cub/x.cuh>\n#include CAT(value)\n",
    }
    place = toolkit(folder, macros)
    source = CudaSource("k.cu", "#include <cuda/std/own>" + KERNEL, options=(f"-I{place}",))
    for value in (4, 15):
        (place / "cub/value.cuh").write_text(f"#define VALUE {value}\n")
        code = compile_source(source, target, ImageCache(folder / "cache")).code
        assert size(code, target, folder) == value


@pytest.mark.parametrize("target", [HOST, PTX], ids=str)
def test_names_that_no_file_can_have(target: Target, folder: Path) -> None:
    with pytest.raises(CompileError, match=r"k\.cu"):
        compile_source(source_of(folder, f'#include "{"long" * 100}.cuh"'), target)


@pytest.mark.parametrize("target", [HOST, PTX], ids=str)
def test_a_header_that_cannot_be_read(
    target: Target, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not count as an empty one."""
    write(folder, 5)
    read = Path.read_text

    def refuse(path: Path, **options: str) -> str:
        if path.name == "value.cuh":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return read(path, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(SpecError, match=r"value\.cuh cannot be read: Permission denied"):
        compile_source(source_of(folder, '#include "value.cuh"'), target)
