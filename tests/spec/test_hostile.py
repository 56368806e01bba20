"""Spec files that want out of their folder, into the generated text, or too much memory."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from kspec import limits
from kspec.build.package import files
from kspec.build.plan import BuildPlan
from kspec.build.project import plan_project
from kspec.compiler import compile_source
from kspec.errors import CompileError, SpecError
from kspec.model.stages import Target
from kspec.spec.loader import SpecFileError, load_spec_file
from tests.projects import CONFIGURATION, ROOT, run_python

SQUARE = """
[elementwise.square]
inputs = "T x"
outputs = "T y"
operation = "y = x * x"
types = { T = ["float32"] }
"""
RAW = """
[raw.k]
code = '''
%s
extern "C" __global__ void k(float* x) {}
'''
"""
SUM = """
[reduction.total]
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a + b"
post_map = "y = a"
types = { T = ["float32"] }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "specs").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    (tmp_path / "secret.cuh").write_text("#define SECRET 1\n")
    (tmp_path / "secret.cu").write_text('extern "C" __global__ void k(float* x) {}\n')
    return folder


def plan(project: Path, text: str) -> BuildPlan:
    (project / "specs/a.toml").write_text(text, encoding="utf-8")
    return plan_project(project)


def refuse(project: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan(project, text)


class TestLeavingTheFolder:
    @pytest.mark.parametrize(
        "source", ["../../secret.cu", "../specs/../../secret.cu", "/etc/passwd"]
    )
    def test_a_source_by_its_path(self, project: Path, source: str) -> None:
        refuse(project, f'[raw.k]\nsource = "{source}"\n', "outside the folder of the spec")

    @pytest.mark.parametrize("name", ["link.cu", "sub/secret.cu"])
    def test_a_source_by_a_link(self, project: Path, name: str) -> None:
        (project / "specs/link.cu").symlink_to(project.parent / "secret.cu")
        (project / "specs/sub").symlink_to(project.parent, target_is_directory=True)
        refuse(project, f'[raw.k]\nsource = "{name}"\n', "outside the folder of the spec")

    def test_a_spec_file_by_a_link(self, project: Path) -> None:
        (project.parent / "other.toml").write_text(SQUARE.replace("square", "other"))
        (project / "specs/b.toml").symlink_to(project.parent / "other.toml")
        refuse(project, SQUARE, r"specs/b\.toml:1:1: .*is a link out of the project; copy the file")

    def test_a_spec_file_by_a_link_inside(self, project: Path) -> None:
        (project / "other.toml").write_text(SQUARE.replace("square", "other"))
        (project / "specs/b.toml").symlink_to(project / "other.toml")
        assert [one.name for one in plan(project, SQUARE).specs] == ["square", "other"]

    @pytest.mark.parametrize("key", ["specs", "package"])
    def test_a_folder_by_a_link(self, project: Path, key: str) -> None:
        (project.parent / "outside").mkdir()
        (project / "linked").symlink_to(project.parent / "outside")
        name = "linked" if key == "specs" else "linked/kernels"
        (project / "pyproject.toml").write_text(f'[tool.kspec]\n{key} = "{name}"\n')
        message = (
            rf"\[tool.kspec\] {key}: '{name}' leads out of the project by a link; name a folder"
        )
        refuse(project, SQUARE, message)

    def test_a_package_that_is_a_link(self, project: Path) -> None:
        (project / "other").mkdir()
        (project / "kernels").symlink_to(project / "other")
        (project / "pyproject.toml").write_text('[tool.kspec]\npackage = "kernels"\n')
        refuse(project, SQUARE, r"package: 'kernels' is a link, and builds replace the folder")

    @pytest.mark.parametrize("name", ["../../secret.cuh", "/etc/passwd", "../nothing.cuh"])
    def test_a_header_by_its_path(self, project: Path, name: str) -> None:
        refuse(project, RAW % f'#include "{name}"', "is outside the folder 'specs'")

    def test_a_header_by_a_link(self, project: Path) -> None:
        (project / "specs/link.cuh").symlink_to(project.parent / "secret.cuh")
        refuse(project, RAW % '#include "link.cuh"', "is outside the folder 'specs'")

    def test_a_header_of_a_header(self, project: Path) -> None:
        (project / "specs/a.cuh").write_text('#include "../../secret.cuh"\n')
        refuse(project, RAW % '#include "a.cuh"', "is outside the folder 'specs'")

    @pytest.mark.parametrize(
        "include",
        [
            "#define H %s\n#include H",
            "#define G %s\n#define H G\n#include H",
            "/* a */ #include %s",
            "#include /* a */ %s",
            "#inc\\\nlude %s",
            "%%:include %s",
            "??=include %s",
            "#import %s",
            "#if __has_include(%s)\n#endif",
        ],
    )
    @pytest.mark.parametrize("name", ['"/etc/hostname"', "<../../secret.cuh>", '"/no/such/file"'])
    def test_a_header_by_another_spelling(self, project: Path, include: str, name: str) -> None:
        refuse(project, RAW % (include % name), "is outside the folder 'specs'")

    def test_a_header_that_an_option_names(self, project: Path) -> None:
        text = RAW % "#include H" + "options = ['-DH=\"/etc/hostname\"']\n"
        refuse(project, text, "is outside the folder 'specs'")

    @pytest.mark.parametrize(
        ("include", "message"),
        [
            ("#define S(x) #x\n#include S(/etc/hostname)", "need the name of each header"),
            ('#embed "/etc/hostname"', "need the name of each header"),
            ('#inc??/\nlude "/etc/hostname"', "unrecognized preprocessing directive"),
        ],
    )
    def test_what_no_scanner_finds_is_not_read(
        self, project: Path, include: str, message: str
    ) -> None:
        (unit,) = plan(project, RAW % include + 'options = ["-std=c++11"]\n').units
        with pytest.raises(CompileError, match=message) as caught:
            compile_source(unit.source, Target("sm_90"))
        assert Path("/etc/hostname").read_text().strip() not in str(caught.value)

    @pytest.mark.parametrize("option", ["-I..", "-Ispecs/../..", "--include-path=../"])
    def test_a_folder_of_headers(self, project: Path, option: str) -> None:
        text = RAW % '#include "secret.cuh"' + f'options = ["{option}"]\n'
        refuse(project, text, "leads out of the project")

    def test_a_link_inside_the_project_stays(self, project: Path) -> None:
        (project / "shared").mkdir()
        (project / "shared/a.cuh").write_text("#define A 1\n")
        (project / "specs/a.cuh").symlink_to(project / "shared/a.cuh")
        (unit,) = plan(project, RAW % '#include "a.cuh"').units
        assert [header.text for header in unit.source.headers] == ["#define A 1\n"]

    @pytest.mark.parametrize(
        "option",
        ["-include=/etc/passwd", "--pre-include=x", "--time=t", "--create-pch=p", "-pch-dir=/tmp"],
    )
    def test_options_that_name_files(self, project: Path, option: str) -> None:
        refuse(project, RAW % "" + f'options = ["{option}"]\n', "its own only")

    @pytest.mark.parametrize("key", ["specs", "package"])
    @pytest.mark.parametrize("folder", ["../other", "/tmp", 'a\\"b', "a\\nb"])
    def test_the_folders_of_a_project(self, project: Path, key: str, folder: str) -> None:
        (project / "pyproject.toml").write_text(f'[tool.kspec]\n{key} = "{folder}"\n')
        refuse(project, SQUARE, rf"\[tool.kspec\] {key}: ")


class TestInjecting:
    @pytest.mark.parametrize("name", ['f(); //"', "f\\n#include <x>", "f-g", "1f", "ƒ", "f" * 300])
    @pytest.mark.parametrize("kind", ["elementwise.square", "reduction.total", "raw.k"])
    def test_a_kernel_name(self, project: Path, kind: str, name: str) -> None:
        text = {"elementwise.square": SQUARE, "reduction.total": SUM, "raw.k": RAW % ""}[kind]
        quoted = name.replace('"', '\\"')
        text = text.replace(f"[{kind}]", f'[{kind.split(".")[0]}."{quoted}"]')
        refuse(project, text, "Invalid kernel name|the code has no kernel")

    @pytest.mark.parametrize("name", ["x;y", "x)", 'x"', "x\\n#include", "é", "import"])
    def test_a_parameter_name(self, project: Path, name: str) -> None:
        refuse(project, SQUARE.replace("T x", f"T {name}".replace('"', '\\"')), r"a\.toml:3:")
        refuse(project, RAW % "" + f"params = ['float* {name}']\n", r"a\.toml:7:")

    @pytest.mark.parametrize("name", ["P {}; struct Q", "P\\n#define x", 'P"', "class"])
    def test_a_struct_name(self, project: Path, name: str) -> None:
        quoted = name.replace('"', '\\"')
        refuse(project, f'[structs."{quoted}"]\na = "float32"\n' + RAW % "", "Invalid struct name")

    def test_the_name_of_a_file(self, project: Path) -> None:
        (project / "specs/a;b.toml").write_text(SQUARE)
        refuse(project, SQUARE.replace("square", "other"), "is not a Python identifier")

    @pytest.mark.parametrize("name", ['x"y.cu', "x\ny.cu", "x\\y.cu"])
    def test_the_name_of_a_source(self, project: Path, name: str) -> None:
        (project / "specs" / name).write_text('extern "C" __global__ void k(float* x) {}\n')
        quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        refuse(project, f'[raw.k]\nsource = "{quoted}"\n', "a path has letters")

    @pytest.mark.parametrize(
        "option", ["-DX=1\\n#include </etc/passwd>", "-DX=1\\\\", "-D\\nX", "-DX=\\u0000"]
    )
    def test_options(self, project: Path, option: str) -> None:
        refuse(project, SQUARE + f'options = ["{option}"]\n', "must be one line")
        refuse(project, RAW % "" + f'options = ["{option}"]\n', "must be one line")

    @pytest.mark.parametrize("expression", ["k\\n#include </etc/passwd>", "k\\\\", "k<1>\\r//"])
    def test_name_expressions(self, project: Path, expression: str) -> None:
        text = RAW % "" + f'name_expressions = ["{expression}"]\n'
        refuse(project, text, "must be one line|the code has no kernel")

    @pytest.mark.parametrize("type_", ["float; int x", "float\\n#include <x>", "T {", '\\"', "#x"])
    def test_the_type_of_an_accumulator(self, project: Path, type_: str) -> None:
        refuse(project, SUM + f'reduce_type = "{type_}"\n', r"is not part of a C\+\+ type")

    @pytest.mark.parametrize(
        "expression",
        ["__import__('os').system('x')", "x.__class__", "(lambda: 1)()", "[1][0]", "n ** n"],
    )
    @pytest.mark.parametrize("field", ["grid", "shared_mem", "defaults"])
    def test_expressions_of_a_launch(self, project: Path, field: str, expression: str) -> None:
        text = RAW % "" + 'params = ["float* x", "int n"]\nblock = "256"\n'
        if field != "grid":
            text += 'grid = "1"\n'
        value = f'{{ n = "{expression}" }}' if field == "defaults" else f'"{expression}"'
        refuse(project, text + f"{field} = {value}\n", r"a\.toml:9:|a\.toml:10:")

    def test_nothing_of_a_reference_runs(self, project: Path) -> None:
        mark = project / "ran"
        text = SQUARE + f"reference = '''__import__('pathlib').Path({str(mark)!r}).touch()'''\n"
        files.text_files(plan(project, text))
        assert not mark.exists()

    @pytest.mark.parametrize(
        "character", ["\\u0000", "\\u001b[31m", "\\u202e", "\\u2028", "\\u0085"]
    )
    def test_characters_that_hide_something(self, project: Path, character: str) -> None:
        line = f'doc = "a{character}b"\n'
        refuse(project, line + SQUARE, "control character U\\+")
        refuse(project, SQUARE + line, "control character U\\+")


# What ends a docstring, a comment, a string or a line in one of the languages that docs get into.
DOCS = [
    '"""\nimport os\nos.abort()\n"""',
    '""""',
    'ends with a quote"',
    "ends with a backslash\\",
    "'''\nimport os\n'''",
    '\\"\\"\\"\nimport os',
    "*/ #include </etc/passwd> /*",
    "// \\\n#include </etc/passwd>",
    '#include "/etc/passwd"',
    "{0} {x!r} %s %(x)s %d {{ 7 * 7 }} {% include 'x' %} {# #}",
    "\\N{BULLET} \\x41 \\u0041 \\101 \\",
    "<script>alert(1)</script>",
    ">>> import os; os.abort()",
]


@pytest.mark.parametrize("doc", DOCS)
def test_a_doc_is_only_a_doc(project: Path, doc: str) -> None:
    """The generated module has the same code as without, and the text as its docstring."""

    def literal(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'doc = "{escaped}"\n'

    specs = [text.replace("]\n", f"]\n{literal(doc)}", 1) for text in (SQUARE, SUM, RAW % "")]
    hostile = files.text_files(plan(project, literal(doc) + "".join(specs)))
    plain = files.text_files(plan(project, SQUARE + SUM + RAW % ""))
    assert _code(hostile["a.py"]) == _code(plain["a.py"])
    assert _code(hostile["__init__.py"]) == _code(plain["__init__.py"])
    assert _directives(hostile["a.cu"]) == _directives(plain["a.cu"])
    tree = ast.parse(hostile["a.py"])
    first = doc.split("\n")[0].strip()
    for node in (tree, *(one for one in tree.body if isinstance(one, ast.FunctionDef))):
        assert (ast.get_docstring(node) or "").startswith(first)


def _code(text: bytes) -> str:
    """Return the statements of a module without docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [one for one in body if not _is_string(one)]
    return ast.unparse(tree)


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _directives(text: bytes) -> list[bytes]:
    """Return the preprocessor's lines, without line numbers: docs move what stands below."""
    lines = [line for line in text.splitlines() if line.lstrip().startswith(b"#")]
    return [b"#line" if line.startswith(b"#line") else line for line in lines]


NUMBERS = ", ".join(["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16"])
LISTED = "[" + ", ".join(f'"{one}"' for one in NUMBERS.split(", ")) + "]"
SIZES = {
    "a large file": ('doc = "' + "x" * limits.SPEC_BYTES + '"', "has at most"),
    "a deep list": ("a = " + "[" * 100_000, "nested"),
    "a deep closed list": ("a = " + "[" * 200 + "]" * 200, "nested"),
    "deep tables": ("a = " + "{ a = " * 5000 + "1" + "}" * 5000, "nested"),
    "a dotted key": (".".join(["a"] * 50_000) + " = 1", "nested"),
    "a quoted dotted key": (".".join(['"a b"'] * 50_000) + " = 1", "nested"),
    "a dotted header": ("[" + ".".join(["a"] * 50_000) + "]", "nested"),
    "an integer": ("doc = " + "9" * 5000, "4300 digits"),
    "combinations": (
        '[elementwise.f]\ninputs = "A a, B b, C c, D d, E e, F f, G g"\noutputs = "A y"\n'
        'operation = "y = a"\n'
        f"types = {{ {', '.join(f'{letter} = {LISTED}' for letter in 'ABCDEFG')} }}\n",
        "has 2097152 combinations",
    ),
    "rows": (
        SQUARE.replace('{ T = ["float32"] }', "[" + '{ T = "float32" },' * 5000 + "]"),
        "at most 4096 combinations",
    ),
    "dtypes": (SQUARE.replace('"float32"', '"float32",' * 100_000), "at most 1024 dtypes"),
    "wrong dtypes": (SQUARE.replace('"float32"', '"flaot32",' * 100_000), "at most 1024 dtypes"),
    "parameters": (
        SQUARE.replace("T x", ", ".join(f"T x{k}" for k in range(100_000))),
        "at most 1024 parameters",
    ),
    "listed parameters": (
        SQUARE.replace('"T x"', "[" + '"T x",' * 100_000 + "]"),
        "at most 1024 parameters",
    ),
    "C parameters": (
        RAW % "" + 'params = "' + "int n," * 100_000 + '"\n',
        "at most 1024 parameters",
    ),
    "kernels": (
        "".join(SQUARE.replace("square", f"f{k}") for k in range(1001)),
        "at most 1000 kernels",
    ),
    "specializations": (
        "".join(
            SQUARE.replace("square", f"f{k}")
            .replace('"T x"', '"T x, U u, raw V v, raw W w"')
            .replace('{ T = ["float32"] }', f"{{ {', '.join(f'{one} = {LISTED}' for one in 'TUVW')} }}")
            for k in range(2)
        ),
        "more than 16384 specializations",
    ),
    "a struct": (
        SQUARE.replace('"float32"', '{ a = "float32[1000000000000000]" }'),
        "the limit is",
    ),
    "a deep struct": (
        SQUARE.replace('"float32"', '"' + "{a: " * 3000 + "float32" + "}" * 3000 + '"'),
        "nested more than",
    ),
    "an example": (
        SQUARE + "example = { shapes = { x = [1000000, 1000000] } }\n",
        "an example has at most",
    ),
    "an expression": (
        RAW % "" + 'params = ["float* x"]\ngrid = "' + "(" * 5000 + "1" + ")" * 5000
        + '"\nblock = "1"\n',
        "nested",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SIZES)
def test_a_size_is_refused(project: Path, case: str) -> None:
    text, message = SIZES[case]
    refuse(project, text, message)


@pytest.mark.slow
def test_refusing_takes_little_memory(project: Path) -> None:
    folder = project / "specs"
    for number, (text, _) in enumerate(SIZES.values()):
        (folder / f"a{number}.toml").write_text(text)
    code = (
        "import re\nfrom pathlib import Path\n"
        "from kspec.spec.loader import SpecFileError, load_spec_file\n"
        f"root = Path({str(project)!r})\n"
        "for path in sorted((root / 'specs').glob('*.toml')):\n"
        "    try: load_spec_file(path, root)\n"
        "    except SpecFileError as error: assert len(str(error)) < 1 << 20\n"
        # Not resource.getrusage, which counts the process that forked this one, too.
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])\n"
    )
    assert int(run_python(code, ROOT)) < 400 * 1024


def test_a_source_is_limited(project: Path) -> None:
    for name in ("large.cu", "large.cuh"):
        with (project / "specs" / name).open("wb") as file:
            os.truncate(file.fileno(), limits.SOURCE_BYTES + 1)
    refuse(project, '[raw.k]\nsource = "large.cu"\n', "has more than 16777216 bytes")
    refuse(project, RAW % '#include "large.cuh"', "has more than 16777216 bytes")


def test_a_hundred_problems_are_listed(project: Path) -> None:
    path = project / "specs/a.toml"
    path.write_text("".join(f"x{k} = 1\n" for k in range(50_000)))
    with pytest.raises(SpecFileError) as caught:
        load_spec_file(path, project)
    assert len(caught.value.problems) == limits.PROBLEMS


def test_what_is_not_a_file(project: Path) -> None:
    os.mkfifo(project / "specs/pipe.cu")
    (project / "specs/device.cu").symlink_to("/dev/zero")
    refuse(project, '[raw.k]\nsource = "pipe.cu"\n', "there is no file")
    refuse(project, '[raw.k]\nsource = "device.cu"\n', "outside the folder")
    os.mkfifo(project / "specs/b.toml")
    refuse(project, SQUARE, r"b\.toml:1:1: error: is not a file")
