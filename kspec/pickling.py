"""Objects that decorators put in the place of functions, and that travel as these do: by name.

::

    pickle.loads(pickle.dumps(module.softmax)) is module.softmax      # softmax is @kspec.fuse

`kspec.fuse` and `kspec.jit` make such objects; what they have traced and loaded stays where it is.
"""

from __future__ import annotations

import sys
from typing import Any, Self


class PickledByName:
    """Base of objects that are pickled by their qualified name.

    Those without such a name are pickled as the arguments they were made from. A copy of one is
    itself, as it is with functions.
    """

    def made_of(self) -> tuple[Any, ...]:
        """Return the arguments that make another one."""
        raise NotImplementedError

    def __reduce__(self) -> str | tuple[Any, ...]:
        name: str = getattr(self, "__qualname__", "")
        found: object = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (type(self), self.made_of())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self
