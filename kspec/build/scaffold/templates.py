"""Templates of new projects: what each is for, and its files.

>>> list(TEMPLATES)
['library', 'script', 'torch']
>>> find_template("script").files["{module}.py"]
'script/program.py'

A row is data only; the text of the files is in ``templates/project``, a folder for each template
and ``shared`` for what several have.  `kspec.build.scaffold.project` renders it.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping

from kspec.build.plan import RESERVED_STEMS
from kspec.build.settings import CONFIGURATION
from kspec.dataclass import dataclass
from kspec.errors import SpecError
from kspec.spec.schema import SCHEMA_FILE

DEFAULT = "library"

_RESERVED = frozenset({"kspec", *RESERVED_STEMS})
# The modules that kspec, programs with kernels and their tests import beside Python's own.
_IMPORTED = frozenset(
    {
        *("kspec", "kspec_kernels", "numpy", "cuda", "ml_dtypes", "ziglang"),
        *("cupy", "torch", "jax", "numba", "dask", "scipy", "matplotlib"),
        *("pydantic", "jinja2", "typer", "rich", "pytest", "hypothesis", "conftest"),
    }
)


@dataclass(frozen=True)
class ProjectTemplate:
    """Files of a new project; in texts ``{module}`` stands for the module of its kernels.

    Attributes
    ----------
    summary : str
        Its description, for a user who chooses.
    result : str
        The project, for a user who has chosen.
    command : str
        The command to begin with.
    files : mapping of str to str
        Name in ``templates/project`` by path in the project.
    reserved : frozenset of str
        Names that the module of its kernels cannot have.
    refusal : str
        The reason for that, with ``{module}``.
    """

    summary: str
    result: str
    command: str
    files: Mapping[str, str]
    reserved: frozenset[str]
    refusal: str = "kspec needs the name {module!r} itself"


_PACKAGE = {
    ".github/workflows/release.yml": "shared/release.yml",
    ".github/workflows/test.yml": "shared/test.yml",
    ".gitignore": "shared/gitignore",
    "README.md": "shared/README.md",
    CONFIGURATION: "shared/pyproject.toml",
    SCHEMA_FILE: "shared/schema",
}
TEMPLATES = {
    "library": ProjectTemplate(
        "specs, tests, and a wheel of precompiled kernels",
        "a project with the kernels of specs/{module}.toml",
        "kspec demo",
        _PACKAGE
        | {
            "specs/{module}.toml": "library/kernels.toml",
            "tests/test_{module}.py": "library/test_kernels.py",
        },
        _RESERVED,
    ),
    "script": ProjectTemplate(
        "one Python file with its kernels in it",
        "a script with its kernels, {module}.py",
        "python {module}.py",
        {
            ".gitignore": "shared/gitignore",
            "README.md": "script/README.md",
            "{module}.py": "script/program.py",
            "test_{module}.py": "script/test_program.py",
        },
        _IMPORTED | sys.stdlib_module_names,
        "{module}.py would hide the module {module!r}",
    ),
    "torch": ProjectTemplate(
        "a library whose kernels are PyTorch operators, with gradients",
        "a project with the PyTorch operators of specs/{module}.toml",
        "kspec demo",
        _PACKAGE
        | {
            ".github/workflows/test.yml": "torch/test.yml",
            "README.md": "torch/README.md",
            CONFIGURATION: "torch/pyproject.toml",
            "specs/{module}.toml": "torch/kernels.toml",
            "tests/test_{module}.py": "torch/test_kernels.py",
        },
        _RESERVED | {"torch"},
    ),
}


def find_template(name: str) -> ProjectTemplate:
    """Return a template by its name.

    Raises
    ------
    SpecError
        If there is none; the message lists them.
    """
    if name in TEMPLATES:
        return TEMPLATES[name]
    near = difflib.get_close_matches(name, TEMPLATES, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise SpecError(f"unknown template {name!r}; expected one of {', '.join(TEMPLATES)}{hint}")
