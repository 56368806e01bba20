"""``kspec`` and ``python -m kspec.build``: the command line, or what to install to have it."""

from __future__ import annotations

import sys

# The author's side; a deployed package is installed without it.
_EXTRA = ("pydantic", "jinja2", "typer", "rich")


def main() -> None:
    """Run the command line and exit."""
    try:
        from kspec.build.cli import main as run
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        print(
            f"kspec: the command line needs {error.name}: pip install 'kspec[cu13]' (or "
            "'kspec[cu12]' for a CUDA 12 driver)",
            file=sys.stderr,
        )
        sys.exit(3)
    run()


if __name__ == "__main__":
    main()
