"""A generated package, imported from its folder whatever ``sys.path`` says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from kspec.errors import LoadError


def import_package(folder: Path) -> ModuleType:
    """Import the package in a folder under the folder's name, afresh.

    Raises
    ------
    LoadError
        If there is no package.
    """
    name = folder.name
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "__init__.py").is_file():
        raise LoadError(f"there is no package {folder.name}; run `kspec build`")
    for loaded in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
        del sys.modules[loaded]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def import_path(folder: Path) -> str:
    """Return the path of a package in a wheel: ``"toy/_kernels"`` for ``src/toy/_kernels``.

    The folders above it that are packages belong to its name.
    """
    parts = [folder.name]
    for parent in folder.parents:
        if not (parent / "__init__.py").is_file():
            break
        parts.append(parent.name)
    return "/".join(reversed(parts))
