"""PTX for older drivers: an image of PTX in, the same in an older version of the language out.

::

    with_isa(image, "8.0", "norms.cu")    # loads on every driver since CUDA 12.0

A compiler writes the newest PTX that it knows, and drivers refuse what is newer than they are
(`CUDA_ERROR_UNSUPPORTED_PTX_VERSION`).  NVRTC has no option for that.  But each version of the
language contains those before, so the text is declared to be older, without the hints that were
new, and then read by the assembler: whatever it has that the older version has not is found here,
not on a user's machine.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kspec.compiler.cuda import link
from kspec.errors import CompileError
from kspec.model.stages import Image

_VERSION = re.compile(rb"^(\s*\.version\s+)(\d+)\.(\d+)", re.MULTILINE)
_WANTED = re.compile(r"(\d+)\.(\d+)")
# Hints, which change no result, and the first version that knows them.
_HINTS = (
    (re.compile(rb'^[ \t]*\.pragma\s+"used_bytes_mask[^"]*";[ \t]*\n', re.MULTILINE), (8, 3)),
)
_REASON = re.compile(r"(?:error|fatal) *: (.*)")


def parse_isa(text: str) -> tuple[int, int] | None:
    """Return a version of PTX as numbers, or None for text that is none.

    >>> parse_isa("8.0")
    (8, 0)
    """
    match = _WANTED.fullmatch(text)
    return (int(match[1]), int(match[2])) if match else None


def with_isa(image: Image, isa: str, name: str) -> Image:
    """Return an image in an older version of PTX; as it is, if it is old enough already.

    Parameters
    ----------
    image : Image
        PTX.
    isa : str
        The newest version that will do, such as ``"8.0"``.
    name : str
        Of its source, for messages.

    Raises
    ------
    CompileError
        If the code needs a newer version.
    ToolNotFoundError
        If nvJitLink, whose assembler reads it to find out, is missing.
    """
    wanted, found = parse_isa(isa), _VERSION.search(image.code)
    if wanted is None or found is None or (int(found[2]), int(found[3])) <= wanted:
        return image
    code = _VERSION.sub(rb"\g<1>" + isa.encode(), image.code, count=1)
    for hint, since in _HINTS:
        code = hint.sub(b"", code) if wanted < since else code
    log = link.assembler_errors(code, image.arch, name)
    if log:
        reasons = dict.fromkeys(reason.strip() for reason in _REASON.findall(log))
        reasons.pop("Ptx assembly aborted due to errors", None)
        text = "".join(f"\n  {reason}" for reason in reasons) or f"\n  {log}"
        raise CompileError(
            f"{name}: the code for {image.arch} cannot be PTX {isa}, as ptx_isa in [tool.kspec] "
            f"has it:{text}",
            target=image.arch,
        )
    return replace(image, code=code)
