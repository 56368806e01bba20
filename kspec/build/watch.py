"""Looks at the specs of a package when it is imported: only in editable installs.

The build hook puts a copy of this file into the environment, beside a ``.pth`` file that calls
`watch` when Python starts.  So it imports nothing but the standard library until a package that
it watches is imported, and nothing of kspec while the specs are those of the last build, as the
package's stamp says.  `kspec.build.develop` writes the stamp, and builds what is stale.

Installed wheels have neither file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# Compiled Python is there too: ignored by version control, left out of wheels.
STAMP = Path("__pycache__") / "kspec-stamp.json"


class Watch:
    """An import hook that finds nothing, but has a package rebuilt before others find it.

    Parameters
    ----------
    name : str
        What the package is imported as.
    project, folder : str
        Folders of the ``pyproject.toml`` and of the package.
    refresh : callable
        Rebuilds the package of the project in a folder.
    """

    def __init__(
        self, name: str, project: str, folder: str, refresh: Callable[[Path], None]
    ) -> None:
        self.name = name
        self._refresh = refresh
        self._project = Path(project)
        self._folder = Path(folder)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Rebuild the package if it is what is imported, and stale.

        Raises
        ------
        KspecError
            If it cannot be rebuilt: what was built from other specs is not imported.
        """
        if name == self.name and self._project.is_dir() and not self._is_current():
            import importlib

            self._refresh(self._project)
            # Finders remember that the folder was missing, if this is the first build.
            importlib.invalidate_caches()

    def _is_current(self) -> bool:
        import json

        try:
            stamp = json.loads((self._folder / STAMP).read_text(encoding="utf-8"))
            found = digest(self._project, self._folder, stamp["specs"], stamp["files"])
            return bool(stamp["digest"] == found)
        except (OSError, ValueError, TypeError, KeyError):
            return False


def watch(name: str, project: str, folder: str, root: str, refresh: Callable[[Path], None]) -> None:
    """Make a package importable, and watch it; called from a ``.pth`` file.

    Parameters
    ----------
    name, project, folder : str
        As for `Watch`.
    root : str
        Folder that the package is imported from.
    refresh : callable
        As for `Watch`.
    """
    if root not in sys.path:
        sys.path.append(root)
    if not any(getattr(one, "name", None) == name for one in sys.meta_path):
        sys.meta_path.insert(0, Watch(name, project, folder, refresh))


def digest(project: Path, folder: Path, specs: str, files: Sequence[str]) -> str:
    """Return a digest that tells whether a package is that of the last build.

    Parameters
    ----------
    project, folder : Path
        As for `Watch`.
    specs : str
        Folder of the spec files, relative to the project.
    files : sequence of str
        Other files that a build reads.
    """
    import hashlib

    import kspec  # nothing else comes with it

    result = hashlib.sha256(kspec.__version__.encode())
    inputs = [project / "pyproject.toml", *sorted((project / specs).rglob("*"))]
    for path in (*inputs, *(project / name for name in files), *sorted(folder.rglob("*"))):
        name = path.relative_to(project)
        if path.is_file() and path.suffix != ".fatbin" and "__pycache__" not in name.parts:
            content = path.read_bytes()
            result.update(f"\0{name.as_posix()}\0{len(content)}\0".encode() + content)
    return result.hexdigest()
