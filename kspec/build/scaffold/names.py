"""The name of a project in, the module of its kernels out.

>>> module_name("Fast-Norms")
'fast_norms'
"""

from __future__ import annotations

import keyword
import re

from kspec.build.scaffold.templates import ProjectTemplate
from kspec.errors import SpecError

# As packaging has it: what a distribution may be called.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def module_name(name: str) -> str:
    """Return the identifier for the name of a distribution.

    Raises
    ------
    SpecError
        If nothing can be installed or imported under this name; the message has one that can.
    """
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} is not a name that packages can have: letters, digits, '.', '_' and '-', "
            f"and a letter or digit at both ends{_suggestion(name)}"
        )
    module = re.sub(r"[-_.]+", "_", name).lower()
    if not module.isidentifier() or keyword.iskeyword(module):
        what = (
            "a Python keyword" if keyword.iskeyword(module) else "not the name of a Python module"
        )
        raise SpecError(f"{name!r}: {module!r} is {what}{_suggestion(f'my-{name}')}")
    return module


def check_unreserved(name: str, module: str, template: ProjectTemplate) -> None:
    """Raise if the module of a project of this name would be in the way of another.

    Raises
    ------
    SpecError
        With a name that would not.
    """
    if module in template.reserved:
        refusal = template.refusal.format(module=module)
        raise SpecError(f"{name!r}: {refusal}{_suggestion(f'my-{name}')}")


def _suggestion(name: str) -> str:
    near = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-").lower()
    if not near:
        return ""
    near = near if near[0].isalpha() else f"my-{near}"
    return f"; try {near!r}"
