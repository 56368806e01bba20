"""``kspec`` and ``python -m kspec``: the command line, or what to install to have it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# The author's side; a deployed package is installed without it.
_EXTRA = ("pydantic", "jinja2", "typer", "rich")


def main() -> None:
    """Run the command line and exit."""
    try:
        from kspec.build.cli import main as run

        run()
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        if sys.argv[1:2] == ["doctor"]:  # the command that says what is missing works without it
            sys.exit(_doctor(sys.argv[2:]))
        print(
            f"kspec: the command line needs {error.name}: pip install 'kspec[author]' "
            "(to compile for GPUs too, 'kspec[cu13]' or 'kspec[cu12]')",
            file=sys.stderr,
        )
        sys.exit(3)


def _doctor(arguments: list[str]) -> int:
    from kspec.build.tools.doctor_view import FORMATS, diagnose

    parser = argparse.ArgumentParser(prog="kspec doctor")
    parser.add_argument("--format", choices=FORMATS, default="text", dest="form")
    parser.add_argument("--project", type=Path, dest="folder", metavar="DIR")
    return diagnose(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    main()
