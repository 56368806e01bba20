"""Imports point down only: the table of the design, section 3, checked by parsing every file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.projects import BLOCKED, ROOT, run_python

PACKAGE = ROOT / "kspec"
PATHS = ROOT, ROOT / "generated"
# Each may import those to its left, and `typing` none of them.
BASE = (
    "cpp",
    "diagnostics",
    "errors",
    "config",
    "installed",
    "limits",
    "locks",
    "name_expressions",
    "checks",
    "structs",
    "dtypes",
    "definitions",
    "names",
    "by_name",
    "signature",
    "c_params",
    "param_checks",
    "expressions",
    "launch_rules",
    "backward",
    "declaration",
    "operators",
    "stages",
    "coverage",
    "manifest",
)
EVERY_BASE = {*BASE, "typing"}
# Layer to the kspec packages it may import beside its own.
LAYERS = {
    "compiler": EVERY_BASE | {"__version__"},
    "host": EVERY_BASE,
    "runtime": EVERY_BASE | {"host"},
    "spec": EVERY_BASE,
    "render": EVERY_BASE | {"spec"},
    "ir": EVERY_BASE,
    "fusion": EVERY_BASE | {"spec", "ir"},
    "jit": EVERY_BASE | {"spec", "ir"},
    "pipeline": EVERY_BASE | {"spec", "render", "compiler", "runtime"},
    "constructors": EVERY_BASE | {"spec", "render", "compiler", "runtime", "pipeline"},
    "build": EVERY_BASE | {"compiler", "host", "runtime", "spec", "render", "pipeline", ""},
    "torch": EVERY_BASE | {"runtime"},
    "fused": EVERY_BASE | {"spec", "fusion", "constructors", "runtime"},
    "jitted": EVERY_BASE | {"runtime", "spec", "ir", "jit"},
    "sharded": EVERY_BASE | {"runtime"},
    "dask": EVERY_BASE | {"runtime"},
    "jax": EVERY_BASE | {"runtime"},
    # A list of names for users, which is above what they name.
    "jit/__init__.py": {"jit", "jitted"},
    "": {*EVERY_BASE, "compiler", "host", "runtime", "spec", "constructors", "fused"},
}
# The seams: the runtime reaches the compiler inside functions of these files.
SEAMS = {
    ("runtime/provider.py", "compiler"),
    ("host/shared_objects.py", "compiler"),
}
# Third-party module to the files that may import it, or layers, ending in "/".
THIRD_PARTY = {
    "numpy": (
        "typing.py",
        "runtime/",
        "host/",
        "constructors.py",
        "fused/",
        "jitted.py",
        "build/",
        "fusion/",
        "jit/",
        "sharded.py",
        "dask/",
        "jax/",
    ),
    "jax": ("jax/",),
    "cuda.bindings.driver": ("runtime/driver.py",),
    "cuda.bindings.nvrtc": ("compiler/nvrtc.py",),
    "cuda.bindings.nvfatbin": ("compiler/fatbin.py",),
    "cuda.bindings": (),
    "cuda.core": ("runtime/",),
    "cuda.bindings.nvjitlink": ("compiler/link.py",),
    "cuda.pathfinder": ("compiler/toolkit.py",),
    "ml_dtypes": ("runtime/views.py",),
    "ziglang": ("compiler/host_compiler.py",),
    "pydantic": ("spec/",),
    "jinja2": (
        "render/",
        "build/api.py",
        "build/scaffold.py",
        "build/report_page.py",
        "build/catalogue.py",
    ),
    "hatchling": ("build/hook.py",),
    "typer": ("build/cli/",),
    "rich": (
        "build/cli/",
        "build/demo.py",
        "build/report_view.py",
        "build/diff_view.py",
        "build/properties/table.py",
    ),
    "dask": ("dask/graphs.py",),
    "torch": ("torch/",),
    "hypothesis": ("build/properties/",),
    "pytest": ("build/pytest_plugin.py",),
}

FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def imports(name: str) -> Iterator[tuple[str, int, bool]]:
    """Yield each imported module of a file, its line, and whether it is at the top level."""
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    top = {id(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            top -= {id(node) for node in ast.walk(function)}
    for guard in ast.walk(tree):
        if isinstance(guard, ast.If) and ast.unparse(guard.test) == "TYPE_CHECKING":
            top -= {id(node) for node in ast.walk(guard)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in top
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")  # none may be relative
            if module in ("kspec", "cuda", "cuda.bindings"):
                for alias in node.names:
                    yield f"{module}.{alias.name}", node.lineno, id(node) in top
            else:
                yield module, node.lineno, id(node) in top


def layer_of(name: str) -> str:
    if name in LAYERS:
        return name
    first = name.removesuffix(".py").split("/")[0]
    return "" if first == "__init__" else first


def upward_imports(name: str) -> Iterator[str]:
    """Yield a message for each import of a file that its layer does not allow."""
    layer = layer_of(name)
    if layer in BASE:
        allowed = set(BASE[: BASE.index(layer) + 1])
    elif layer == "typing":
        allowed = set()
    elif layer in LAYERS:
        allowed = LAYERS[layer] | {layer}
    else:
        yield f"kspec/{name}: in no layer of the design"
        return
    for module, line, top in imports(name):
        if not (module == "kspec" or module.startswith("kspec.")):
            continue
        target = module.split(".")[1] if "." in module else ""
        if (name, target) in SEAMS and not top:
            continue
        if target not in allowed:
            yield f"kspec/{name}:{line}: {layer} must not import {module}"


def misplaced_dependencies(name: str) -> Iterator[str]:
    """Yield a message for each import of another project that the design has elsewhere."""
    for module, line, _ in imports(name):
        root = module.split(".")[0]
        if root == "kspec" or root in sys.stdlib_module_names:
            continue
        known = [one for one in THIRD_PARTY if module == one or module.startswith(f"{one}.")]
        if not known:
            yield f"kspec/{name}:{line}: unknown dependency {module}"
            continue
        places = THIRD_PARTY[max(known, key=len)]
        fits = any(
            name == place or (place[-1] == "/" and name.startswith(place)) for place in places
        )
        if not fits:
            yield f"kspec/{name}:{line}: {module} belongs in {', '.join(places)}"


def test_imports_point_down() -> None:
    found = [message for name in FILES for message in upward_imports(name)]
    assert not found, "\n".join(found)


def test_third_party_imports_are_where_the_design_has_them() -> None:
    found = [message for name in FILES for message in misplaced_dependencies(name)]
    assert not found, "\n".join(found)


def test_the_runtime_needs_no_authoring_library() -> None:
    modules = [f"kspec.runtime.{name}" for name in ("elementwise", "reduction", "raw", "package")]
    code = f"{BLOCKED}\nimport {', '.join(modules)}\nprint(sorted(sys.modules))"
    loaded = run_python(code, ROOT)
    for layer in ("compiler", "spec", "render", "build"):
        assert f"'kspec.{layer}" not in loaded


# What each kind of process has no use for, so that it does not pay for importing it.
COMMAND_LINE = ("typer", "rich", "hatchling")
COMPILING = ("cuda.bindings.nvrtc", "cuda.bindings.nvfatbin", "kspec.compiler", "kspec.render")
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
        (*NEVER, *COMPILING, "jinja2", "kspec.spec.loader", "tomllib", "subprocess"),
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
        "from kspec.stages import Specialization, Target\n"
        "source = LazySource(kernel._spec)(Specialization('f', (('T', 'float32'),)))\n"
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


def test_importing_kspec_imports_nothing_else() -> None:
    code = "import sys, kspec; print([name for name in sys.modules if name[:6] == 'kspec.'])"
    assert run_python(code, ROOT).strip() == "[]"
