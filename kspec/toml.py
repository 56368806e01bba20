"""Values as TOML: what the standard library reads, but does not write.

>>> toml_value({"T": ("int8", "int16"), "size": 3, "exact": True})
'{ T = ["int8", "int16"], size = 3, exact = true }'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(name: str) -> str:
    """Return a key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else _string(name)


def toml_value(value: object) -> str:
    """Return a string, a number, a list or a table; in one line, unless a string has several."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        pairs = (f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return repr(value)


def _string(text: str) -> str:
    plain = all(one.isprintable() or one in "\n\t" for one in text)
    if "\n" in text and plain and "'''" not in text and not text.endswith("'"):
        return f"'''\n{text}'''"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
