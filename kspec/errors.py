"""Every exception kspec raises on purpose.

::

    KspecError
    ├── SpecError (ValueError)              a kernel is declared wrongly
    │   ├── SignatureSyntaxError            the mini-language does not parse
    │   │   └── UnknownTypeError (TypeError)    an unknown type
    │   └── DuplicateKernelError            two kernels of one package share a name
    ├── FusionError (TypeError)             a function that cannot be fused
    │   ├── FusionAssignmentError (ValueError)  it assigns to a part of an array
    │   ├── FusionAttributeError (AttributeError)   an attribute that only arrays have
    │   └── FusionIndexError (IndexError)   an index that is not an integer or slice
    ├── JitError                            a Python function that cannot become a kernel
    │   ├── JitTypeError (TypeError)
    │   ├── JitValueError (ValueError)
    │   ├── JitNameError (NameError)
    │   ├── JitIndexError (IndexError)
    │   ├── JitOverflowError (OverflowError)
    │   ├── JitNotSupportedError (NotImplementedError)
    │   └── JitRuntimeError (RuntimeError)
    ├── RenderError                         a declaration cannot become CUDA text
    ├── CompileError                        the compiler refused the text
    ├── NotCompiledError (LookupError)      there is no source to show: nothing was called yet
    ├── LoadError (RuntimeError)            an image or a symbol in it cannot be loaded
    ├── ManifestError (RuntimeError)        a generated package is damaged or too new
    ├── DispatchError                       a call does not fit its kernel
    │   ├── ArgumentTypeError (TypeError)
    │   │   ├── UnboundPlaceholderError (KeyError)
    │   │   ├── DeviceMismatchError (ValueError)
    │   │   └── UnsupportedDTypeError (ValueError)
    │   ├── ShapeError (ValueError)
    │   ├── OverlapError (ValueError)
    │   └── SpecializationNotBuilt          KSPEC_JIT=never and nothing precompiled fits
    │       └── InstanceNotBuilt (ArgumentTypeError)    a raw kernel is not made for these types
    ├── LaunchError (RuntimeError)          grid, block or shared memory are impossible
    │   └── CheckOptionError (ValueError)   sanitize=, order= or timeout= has no such value
    ├── DriverError (RuntimeError)          a CUDA driver call failed
    ├── HostFault (RuntimeError)            a kernel did something illegal on the host device
    ├── ToolNotFoundError (RuntimeError)    a GPU, a compiler or a library is missing
    ├── ToolStoppedError (RuntimeError)     a compiler was stopped before it was done
    ├── FileError (OSError)                 the system refuses a file, a folder or a process
    └── NotSupportedError (NotImplementedError)  CuPy has it, kspec does not have it yet

Argument errors also are the built-in class that CuPy raises in the same place, so that
existing ``except TypeError`` keeps working.  Example: ``raise ShapeError("Out shape is
mismatched")``.  What an error says of a user's text it carries as `kspec.diagnostics` too.
"""

from __future__ import annotations

import os
import pathlib
import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kspec.diagnostics import Diagnostic

_FOLDER = f"{pathlib.Path(__file__).parent}{os.sep}"


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, in the plural but for one.

    >>> counted(1, "parameter"), counted(2, "parameter")
    ('1 parameter', '2 parameters')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def marked_line(text: str, offset: int, length: int = 1) -> str:
    r"""Return the line of `text` that holds `offset`, and carets under what is meant.

    >>> print(marked_line("T x,\nT", 5))
        T
        ^
    """
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : len(text) if end < 0 else end]
    room = max(1, len(line) - (offset - start))
    return f"    {line}\n    {' ' * (offset - start)}{'^' * min(length, room)}"


def shorten(error: BaseException) -> None:
    """Drop kspec's own frames from a traceback that begins in the function that a user called.

    That function stays, and so do functions of users that it called, as a fused one, with the line
    of kspec that they called in turn.  Functions for users do so with errors that users make, which
    costs other calls nothing; what kspec gets wrong itself is of other classes.  Development mode,
    ``python -X dev``, keeps all frames.
    """
    if sys.flags.dev_mode:
        return
    entries: list[types.TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    theirs = [not _is_own(one) for one in entries]
    shown: types.TracebackType | None = None
    for k in range(len(entries) - 1, -1, -1):
        if k == 0 or theirs[k] or theirs[k - 1]:
            one = entries[k]
            shown = types.TracebackType(shown, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = shown


def _is_own(entry: types.TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith((_FOLDER, "<kspec"))


class KspecError(Exception):
    """Base of all errors raised by kspec."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The findings, one by one; one without a position if nothing more is known."""
        from kspec.diagnostics import Diagnostic

        return (Diagnostic("error", str(self)),)


class SpecError(KspecError, ValueError):
    """A kernel is declared wrongly; the message lists every problem found."""


class SignatureSyntaxError(SpecError):
    """A parameter list does not follow the mini-language.

    Parameters
    ----------
    message : str
        What is wrong, without its position.
    text : str
        The whole parameter list.
    offset : int
        Index into `text` of the offending character.
    length : int
        Number of offending characters, for the caret line.
    """

    def __init__(self, message: str, text: str = "", offset: int = 0, length: int = 1) -> None:
        self.message = message
        self.text = text
        self.offset = offset
        self.length = max(1, length)
        super().__init__(self._render())

    def _render(self) -> str:
        if not self.text:
            return self.message
        return f"{self.message}\n{marked_line(self.text, self.offset, self.length)}"


class UnknownTypeError(SignatureSyntaxError, TypeError):
    """A parameter's type is neither a placeholder nor a dtype that kernels support."""


class DuplicateKernelError(SpecError):
    """Two kernels of one package have the same name."""


class FusionError(KspecError, TypeError):
    """A function does what cannot be fused; the message has its line and the way out."""


class FusionAssignmentError(FusionError, ValueError):
    """A function assigns to a part of an array."""


class FusionAttributeError(FusionError, AttributeError):
    """A function asks a traced array for an attribute that only an array has."""


class FusionIndexError(FusionError, IndexError):
    """A function indexes by an array, or by something other than integers and slices."""


class JitError(KspecError):
    """A Python function cannot become a kernel; the message lists every problem found.

    What is raised is a subclass that also is the built-in class of the first problem: a
    `TypeError`, `ValueError`, `NameError`, `IndexError`, `OverflowError`, `NotImplementedError` or
    `RuntimeError`.

    Parameters
    ----------
    message : str
        What is wrong.
    found : tuple of Diagnostic
        Each problem, where it is.
    """

    def __init__(self, message: str, found: tuple[Diagnostic, ...] = ()) -> None:
        self.found = found
        super().__init__(message)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The problems."""
        return self.found or super().diagnostics

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.found)


class JitTypeError(JitError, TypeError):
    """The first problem is a type."""


class JitValueError(JitError, ValueError):
    """The first problem is a value, or syntax that kernels do not have."""


class JitNameError(JitError, NameError):
    """The first problem is a name."""


class JitIndexError(JitError, IndexError):
    """The first problem is an index."""


class JitOverflowError(JitError, OverflowError):
    """The first problem is a number that does not fit its type."""


class JitNotSupportedError(JitError, NotImplementedError):
    """The first problem is what Python has and kernels do not have."""


class JitRuntimeError(JitError, RuntimeError):
    """The source of a function cannot be found, or it is used where it cannot be."""


JIT_ERRORS: dict[type[Exception], type[JitError]] = {
    TypeError: JitTypeError,
    ValueError: JitValueError,
    NameError: JitNameError,
    IndexError: JitIndexError,
    OverflowError: JitOverflowError,
    NotImplementedError: JitNotSupportedError,
    RuntimeError: JitRuntimeError,
}


class RenderError(KspecError):
    """A declaration cannot be turned into CUDA text."""


class CompileError(KspecError):
    """The compiler refused the source.

    Parameters
    ----------
    log : str
        The compiler's own log, positions already those of the spec file.
    source : str
        The text that was compiled.
    options : tuple of str
        The flags it was compiled with.
    target : str
        What it was compiled for, such as ``"sm_90"`` or ``"host"``.
    found : tuple of Diagnostic
        The messages of the log.
    """

    def __init__(
        self,
        log: str,
        source: str = "",
        options: tuple[str, ...] = (),
        target: str = "",
        found: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.log = log
        self.source = source
        self.options = options
        self.target = target
        self.found = found
        super().__init__(log)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The compiler's messages."""
        return self.found or super().diagnostics

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.log, self.source, self.options, self.target, self.found)

    def copy(self) -> CompileError:
        """Return an equal error that holds none of the frames this one went through."""
        return type(self)(self.log, self.source, self.options, self.target, self.found)

    def numbered_source(self) -> str:
        """Return the source with a number before each line."""
        lines = self.source.splitlines()
        width = len(str(len(lines)))
        return "\n".join(f"{number:{width}} {line}" for number, line in enumerate(lines, 1))


class NotCompiledError(KspecError, LookupError):
    """A kernel has no source to show yet: it has not been called."""


class LoadError(KspecError, RuntimeError):
    """An image, or a symbol in it, cannot be loaded on this device."""


class ManifestError(KspecError, RuntimeError):
    """A generated package is damaged, incomplete or from a newer kspec."""


class DispatchError(KspecError):
    """A call does not fit the kernel."""


class ArgumentTypeError(DispatchError, TypeError):
    """An argument has the wrong type, dtype or device, or there are too many or too few."""


class UnboundPlaceholderError(ArgumentTypeError, KeyError):
    """No array argument decides what a type placeholder stands for."""

    __str__ = Exception.__str__  # KeyError would print the repr of the message


class DeviceMismatchError(ArgumentTypeError, ValueError):
    """Arguments live on several devices; nothing is copied between them behind a user's back."""


class UnsupportedDTypeError(ArgumentTypeError, ValueError):
    """An array's elements are of a dtype that kernels do not know, or masked."""


class ShapeError(DispatchError, ValueError):
    """Shapes do not broadcast, or the loop size is unknown or given twice."""


class OverlapError(DispatchError, ValueError):
    """An array that is written to shares memory with another one, or with itself."""


class SpecializationNotBuilt(DispatchError):
    """Nothing precompiled fits the call and compiling is forbidden."""


class InstanceNotBuilt(SpecializationNotBuilt, ArgumentTypeError):
    """A raw kernel has no instance for these types; none is ever made at run time."""


class LaunchError(KspecError, RuntimeError):
    """The launch configuration is impossible on this device."""


class CheckOptionError(LaunchError, ValueError):
    """A checking mode, order or timeout of the host device that does not exist."""


class DriverError(KspecError, RuntimeError):
    """A CUDA driver call failed.

    Parameters
    ----------
    name : str
        Symbolic name such as ``"CUDA_ERROR_NOT_FOUND"``.
    explanation : str
        The driver's description.
    code : int
        Its number.
    """

    def __init__(self, name: str, explanation: str, code: int = 0) -> None:
        self.name = name
        self.explanation = explanation
        self.code = code
        super().__init__(f"{name}: {explanation}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.explanation, self.code)


class HostFault(KspecError, RuntimeError):
    """A kernel did something illegal while running on the host device.

    Parameters
    ----------
    kind : str
        Short stable word: ``"illegal-address"``, ``"barrier-divergence"``, ...
    message : str
        Full text: what, in which block and thread, in which file and line.
    path, line : str and int
        The file and line, if they are known.
    source_line : str
        The line itself.
    """

    def __init__(
        self, kind: str, message: str, path: str = "", line: int = 0, source_line: str = ""
    ) -> None:
        self.kind = kind
        self.message = message
        self.path = path
        self.line = line
        self.source_line = source_line
        headline, *details = message.split("\n")
        shown = (f"    {marked}" for marked in self._place.marked())
        super().__init__("\n".join([headline, *shown, *details]))

    @property
    def _place(self) -> Diagnostic:
        from kspec.diagnostics import Diagnostic

        return Diagnostic(
            "error",
            self.message,
            self.path,
            self.line,
            source_line=self.source_line,
            code=self.kind,
        )

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The fault, where it is."""
        return (self._place,)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.message, self.path, self.line, self.source_line)


class ToolNotFoundError(KspecError, RuntimeError):
    """A GPU, a compiler or a library is missing; the message says what to install."""


class ToolStoppedError(KspecError, RuntimeError):
    """A compiler was stopped from outside: that says nothing about the text, so try again."""


class FileError(KspecError, OSError):
    """The operating system refuses a file, a folder or a process; the message says what to do."""


class NotSupportedError(KspecError, NotImplementedError):
    """Part of CuPy's interface that kspec does not have yet; the message says which."""
