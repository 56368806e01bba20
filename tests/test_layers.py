"""Imports point down only: the table of the design, section 3, checked by parsing every file."""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import own_cache
from tests.projects import BLOCKED, ROOT, run_python

PACKAGE = ROOT / "kspec"
PATHS = ROOT, ROOT / "generated"
# Rooms: a package or a module of kspec. Each of these may import those before it.
BASE = (
    "dataclass",
    "diagnostics",
    "errors",
    "limits",
    "files",
    "config",
    "locks",
    "pickling",
    "toml",
    "cpp",
    "model",
)
RUNTIME = (
    "runtime",
    "runtime.driver",
    "runtime.memory",
    "runtime.libraries",
    "runtime.schedules",
    "runtime.texture",
    "runtime.arguments",
    "runtime.modules",
    "runtime.callcache",
    "runtime.kernels",
    "runtime.raw",
    "runtime.package",
)
# Room to what it may import beside itself and the base; "" is the facade.
LAYERS = {
    "typing": (),
    "compiler": (),
    "host": (),
    "spec": (),
    "render": ("spec",),
    "ir": (),
    "fusion": ("spec", "ir"),
    "jit": ("spec", "ir", "runtime.memory"),
    "pipeline": ("spec", "render", "compiler", *RUNTIME),
    "constructors": ("spec", "pipeline", *RUNTIME),
    "build": ("", "compiler", "host", "spec", "render", "pipeline", "reviews", *RUNTIME),
    "__main__": ("build",),
    "fusion.call": ("spec", "fusion", "constructors", *RUNTIME),
    "jit.kernel": ("spec", "ir", "jit", *RUNTIME),
    "reviews": ("host", *RUNTIME),
    "sharded": RUNTIME,
    "torch": RUNTIME,
    "dask": RUNTIME,
    "jax": RUNTIME,
    "": ("compiler", "host", "spec", "constructors", "fusion.call", "reviews", *RUNTIME),
}
ROOMS = {*BASE, *RUNTIME, *LAYERS}
# The seams: these reach above them, inside functions.
SEAMS = {
    ("kspec/runtime/modules/host.py", "reviews"),
    ("kspec/runtime/modules/provider.py", "compiler"),
    ("kspec/host/shared_objects.py", "compiler"),
}
# Names that anybody may import: what they are in is above.
ANYWHERE = {"kspec.__version__", "kspec.__loaded__"}
# A list of names for users, which is above what they name.
LISTS = {("kspec/jit/__init__.py", "jit.kernel")}
# Third-party module to the files that may import it, or layers, ending in "/".
THIRD_PARTY = {
    "numpy": (
        "model/shapes.py",  # the class of one error
        "typing.py",
        "runtime/",
        "host/",
        "constructors.py",
        "jit/kernel.py",
        "build/",
        "fusion/",
        "jit/",
        "sharded/",
        "dask/",
        "jax/",
    ),
    "jax": ("jax/",),
    "cuda.bindings.driver": ("runtime/driver/__init__.py",),
    "cuda.bindings.nvrtc": ("compiler/cuda/nvrtc.py",),
    "cuda.bindings.nvfatbin": ("compiler/cuda/fatbin.py",),
    "cuda.bindings": (),
    "cuda.core": (),
    "cuda.bindings.nvjitlink": ("compiler/cuda/link.py",),
    "cuda.pathfinder": ("compiler/cuda/__init__.py",),
    "ml_dtypes": ("runtime/memory/__init__.py",),
    "ziglang": ("compiler/host/__init__.py",),
    "pydantic": ("spec/",),
    "jinja2": ("render/",),
    "hatchling": ("build/hook.py",),
    "typer": ("build/cli/",),
    "rich": (
        "build/cli/",
        "build/tools/demo.py",
        "build/report/timings.py",
        "build/report/view.py",
        "build/report/diff_view.py",
        "build/properties/table.py",
    ),
    "pygments": ("build/package/highlight.py",),
    "dask": ("dask/forms.py", "dask/graphs.py", "dask/halos.py"),
    "torch": ("torch/",),
    "hypothesis": ("build/properties/",),
    "pytest": ("build/pytest_plugin.py",),
}

MAX_FILES = 16  # Python files in a folder, __init__.py included

FILES = sorted(path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py"))


@functools.cache
def imports(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return each import of a file: the name, the line, and "first", "later" or "types"."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    when: dict[ast.AST, str] = {}
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            when |= dict.fromkeys(ast.walk(outer), "later")
        elif isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING":
            when |= dict.fromkeys(ast.walk(outer), "types")
    listed: list[tuple[str, int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")  # none may be relative
            whole = module.split(".")[0] not in ("kspec", "cuda")
            found = [module] if whole else [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        listed += [(one, node.lineno, when.get(node, "first")) for one in found]
    return (*listed,)


def module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {module_of(name): name for name in FILES}


def room_of(module: str) -> str:
    """Return the innermost room that an imported module or name is in."""
    parts = module.split(".")[1:]
    prefixes = [".".join(parts[:end]) for end in range(len(parts), -1, -1)]
    return next(prefix for prefix in prefixes if prefix in ROOMS and (prefix or len(parts) < 2))


def allowed_in(room: str) -> set[str]:
    if room in BASE:
        return set(BASE[: BASE.index(room) + 1])
    if room in RUNTIME:
        return {*BASE, "host", *RUNTIME[: RUNTIME.index(room) + 1]}
    return {*(BASE if room != "typing" else ()), *LAYERS[room], room}


def upward_imports(name: str) -> Iterator[str]:
    """Yield a message for each import of a file that its room does not allow."""
    room = room_of(module_of(name))
    for module, line, when in imports(name):
        if module.split(".")[0] != "kspec" or module in ANYWHERE:
            continue
        target = room_of(module)
        if ((name, target) in SEAMS and when != "first") or (name, target) in LISTS:
            continue
        if target not in allowed_in(room):
            yield f"{name}:{line}: {room} must not import {module}"


def misplaced_dependencies(name: str) -> Iterator[str]:
    """Yield a message for each import of another project that the design has elsewhere."""
    for module, line, _ in imports(name):
        root = module.split(".")[0]
        if root == "kspec" or root in sys.stdlib_module_names:
            continue
        known = [one for one in THIRD_PARTY if module == one or module.startswith(f"{one}.")]
        if not known:
            yield f"{name}:{line}: unknown dependency {module}"
            continue
        places = [f"kspec/{place}" for place in THIRD_PARTY[max(known, key=len)]]
        fits = any(
            name == place or (place[-1] == "/" and name.startswith(place)) for place in places
        )
        if not fits:
            yield f"{name}:{line}: {module} belongs in {', '.join(places)}"


def test_imports_point_down() -> None:
    found = [message for name in FILES for message in upward_imports(name)]
    assert not found, "\n".join(found)


def test_imports_have_no_cycle() -> None:
    """Neither those at the top of modules nor those inside functions."""
    graph = {
        module: {
            found if found in MODULES else found.rpartition(".")[0]
            for found, _, when in imports(name)
            if when != "types" and found.split(".")[0] == "kspec"
        }
        - {module}
        for module, name in MODULES.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the modules


def test_folders_are_small() -> None:
    """A newcomer guesses the file from the names in a folder."""
    counts = Counter(name.rpartition("/")[0] for name in FILES)
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES} == {}


def test_third_party_imports_are_where_the_design_has_them() -> None:
    found = [message for name in FILES for message in misplaced_dependencies(name)]
    assert not found, "\n".join(found)


def test_the_runtime_needs_no_authoring_library() -> None:
    modules = [
        f"kspec.runtime.{name}"
        for name in ("kernels.elementwise", "kernels.reduction", "raw.kernel", "package")
    ]
    code = f"{BLOCKED}\nimport {', '.join(modules)}\nprint(sorted(sys.modules))"
    loaded = run_python(code, ROOT)
    for layer in ("compiler", "spec", "render", "build"):
        assert f"'kspec.{layer}" not in loaded


# What each kind of process has no use for, so that it does not pay for importing it.
COMMAND_LINE = ("typer", "rich", "hatchling")
RUNNING_COMPILERS = (
    *("cuda.bindings.nvrtc", "cuda.bindings.nvfatbin", "kspec.render"),
    *("kspec.compiler.compilation", "kspec.compiler.cuda", "kspec.compiler.host"),
)
COMPILING = (*RUNNING_COMPILERS, "kspec.compiler")
AUTHORING = ("pydantic", "jinja2", "kspec.spec", "kspec.render")
NEVER = ("cuda.core", "kspec.build", *COMMAND_LINE)
PROCESSES = {
    "generated": (
        "import numpy as np; from kspec_kernels.math import squared_diff; "
        "from kspec_kernels.norms import l2norm",
        (*NEVER, *COMPILING, *AUTHORING, "ml_dtypes", "subprocess", "tempfile"),
    ),
    "declaring": (
        "import kspec; kspec.ElementwiseKernel('T x', 'T y', 'y = x', 'f'); "
        "kspec.ReductionKernel('T x', 'T y', 'x', 'a + b', 'y = a', '0', 'g')",
        (*NEVER, *RUNNING_COMPILERS, "jinja2", "kspec.spec.loader", "tomllib", "subprocess"),
    ),
    "a generated call on the host device": (
        "import numpy as np; from kspec_kernels.math import squared_diff; "
        "squared_diff(np.ones(3, 'f4'), np.ones(3, 'f4'))",
        (*NEVER, *AUTHORING, "cuda.bindings.nvrtc"),
    ),
    "a lazy call on the host device": (
        "import numpy as np, kspec; kspec.ElementwiseKernel('T x', 'T y', 'y = x')(np.ones(3))",
        (*NEVER, "kspec.spec.loader", "cuda.bindings.nvrtc"),
    ),
    "compiling for a GPU": (
        "import kspec; kernel = kspec.ElementwiseKernel('T x', 'T y', 'y = x', 'f')\n"
        "from kspec.pipeline import LazySource\n"
        "from kspec.compiler import compile_source\n"
        "from kspec.model.stages import Specialization, Target\n"
        "source = LazySource(kernel.spec)(Specialization('f', (('T', 'float32'),)))\n"
        "assert compile_source(source, Target('sm_90')).code",
        (*NEVER, "kspec.spec.loader", "cuda.bindings.nvfatbin"),
    ),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_imports_nothing_that_it_does_not_use(name: str) -> None:
    code, unused = PROCESSES[name]
    loaded = set(run_python(f"{code}\nimport sys\nprint(*sys.modules)", *PATHS).split())
    found = {one for one in loaded if any(f"{one}.".startswith(f"{no}.") for no in unused)}
    assert not found


# Modules of kspec, packages among them: each takes 0.2 ms and more.  What a first call does not need
# is imported by the functions that need it.
GENERATED_MODULES, NOTED_MODULES = 50, 60
NOTED = """
import numpy as np, kspec, sys
x = np.full(1000, 2, np.float32)
square = kspec.ElementwiseKernel("T x", "T y", "y = x * x", "square")
total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
assert square(x).tolist() == [4.0] * 1000 and total(x) == 2000
print(*sys.modules)
"""


def own_modules(code: str) -> set[str]:
    """Return the modules that are imported by a process that prints their names."""
    return set(run_python(code, *PATHS).split())


def test_a_generated_module_imports_what_first_calls_need() -> None:
    loaded = own_modules("import sys; from kspec_kernels import norms; print(*sys.modules)")
    assert len([name for name in loaded if name.split(".")[0] == "kspec"]) <= GENERATED_MODULES


def test_what_was_compiled_before_needs_no_spec_and_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("KSPEC_CACHE_LAYERS", str(own_cache.FOLDER))  # with the host's runtime
    monkeypatch.setenv("KSPEC_HOST_OPT", "0")
    assert "pydantic" in own_modules(NOTED)
    loaded = own_modules(NOTED)
    unused = (*NEVER, *AUTHORING, "kspec.compiler.compilation", "kspec.compiler.cuda", "numpy.ma")
    assert not {one for one in loaded if f"{one}.".startswith(tuple(f"{no}." for no in unused))}
    assert len([name for name in loaded if name.split(".")[0] == "kspec"]) <= NOTED_MODULES


def test_importing_kspec_imports_nothing_else() -> None:
    code = "import sys, kspec; print([name for name in sys.modules if name[:6] == 'kspec.'])"
    assert run_python(code, ROOT).strip() == "[]"


def test_a_class_name_means_one_thing() -> None:
    """Readers and searches find one class, whatever module they come from."""
    homes: dict[str, list[str]] = {}
    for name in FILES:
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
