"""The run-time half of a generated package: opens its manifest, serves its kernels.

A generated module does::

    _module = open_module(__file__, "norms")
    _l2norm = _module.reduction("l2norm")

Opening reads JSON and nothing else; images are read at the first call, and a compiler is only
looked for when no image fits.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kspec import config
from kspec.errors import ArgumentTypeError, CompileError, ManifestError
from kspec.files import read_regular, resolved
from kspec.locks import make_lock
from kspec.model import manifest
from kspec.model.declaration import (
    Declaration,
    ElementwiseDeclaration,
    RawDeclaration,
    ReductionDeclaration,
)
from kspec.model.definitions import prelude
from kspec.model.manifest import ImageEntry, Manifest, ModuleEntry
from kspec.model.stages import (
    CudaSource,
    Header,
    Image,
    Specialization,
    from_aggregates,
    to_aggregates,
)
from kspec.runtime.callcache.cache import ABSENT as ABSENT  # generated modules import it from here
from kspec.runtime.driver import api as driver
from kspec.runtime.driver.archs import fits
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels.base import KernelCallable, Origin
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.kernels.tracing import record
from kspec.runtime.memory.array_view import numpy_dtype
from kspec.runtime.modules.advice import advise
from kspec.runtime.modules.module import LoadedKernel
from kspec.runtime.modules.provider import (
    CompilingProvider,
    KernelLoader,
    OneSource,
    Provider,
    Wanted,
)
from kspec.runtime.raw.declared import RawCallable
from kspec.runtime.raw.launch_rules import RawFunction

# The layouts of stages have layouts in them.
_STAGE = re.compile("|".join(one("").removesuffix(">") for one in (to_aggregates, from_aggregates)))
_DeclarationT = TypeVar("_DeclarationT", bound=Declaration)
_KernelT = TypeVar("_KernelT", bound=KernelCallable[Any])
_KINDS: dict[str, type[KernelCallable[Any]]] = {
    "elementwise": ElementwiseCallable,
    "reduction": ReductionCallable,
    "raw": RawCallable,
}


def load_manifest(folder: Path) -> Manifest:
    """Return the manifest of the package in a folder.

    Raises
    ------
    ManifestError
        If it is missing, damaged, or from a newer kspec.
    """
    path = folder / manifest.FILE_NAME
    try:
        text = read_regular(path).decode("utf-8")
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path} is damaged ({error}); run `kspec build` again") from error
    return manifest.load(text, str(path))


@functools.cache
def read_manifest(folder: Path) -> Manifest:
    """Do as `load_manifest` does, once a process."""
    return load_manifest(folder)


def _unreadable(path: Path, error: OSError) -> ManifestError:
    """Return the remedy for a file of a package that cannot be read."""
    archive = next((one for one in path.parents if one.is_file()), None)
    if archive is not None:  # Python imports from zip files, which nothing else is read from
        return ManifestError(
            f"{path} cannot be read: {archive} is an archive, and packages of kernels are folders; "
            "install the package, or unpack the archive"
        )
    advice = "run `kspec build`" if isinstance(error, FileNotFoundError) else "see who may read it"
    return ManifestError(f"{path} cannot be read: {error.strerror}; {advice}")


def open_module(file: str, stem: str) -> GeneratedModule:
    """Return the kernels of a generated module, given its ``__file__``."""
    folder = resolved(Path(file)).parent
    index = read_manifest(folder)
    return GeneratedModule(folder, index.module(stem), index.jit)


def module_of(module: object) -> GeneratedModule:
    """Return the `GeneratedModule` of a generated Python module.

    Raises
    ------
    ArgumentTypeError
        If it is not one.
    """
    found = getattr(module, "_KERNELS", None)
    if not isinstance(found, GeneratedModule):
        name = getattr(module, "__name__", type(module).__name__)
        raise ArgumentTypeError(f"{name} is not a module that `kspec build` generated")
    return found


def modules_of(package: object) -> tuple[GeneratedModule, ...]:
    """Return the `GeneratedModule` objects of a generated package, or of one module of it.

    Errors are those of `module_of`.
    """
    names = getattr(package, "kernel_names", None)
    if not callable(names):
        return (module_of(package),)
    stems = dict.fromkeys(name.partition(".")[0] for name in names())
    return tuple(module_of(getattr(package, stem)) for stem in stems)


def struct_dtype(text: str) -> np.dtype[Any]:
    """Return the dtype of a struct that a spec declares, given its layout as text."""
    return numpy_dtype(text)


def given(*outputs: Any) -> tuple[Any, ...]:
    """Return the outputs of a call: all of them, or none.

    Raises
    ------
    ArgumentTypeError
        If some are given and others not.
    """
    if all(output is None for output in outputs):
        return ()
    if any(output is None for output in outputs):
        raise ArgumentTypeError("give all outputs or none")
    return outputs


class GeneratedModule:
    """The kernels of one spec file.

    Parameters
    ----------
    folder : Path
        Folder of the generated package.
    entry : ModuleEntry
        The module's part of the manifest.
    jit : str
        What the package says of compiling at run time (`Manifest`).
    """

    def __init__(self, folder: Path, entry: ModuleEntry, jit: str = "auto") -> None:
        self._folder = folder
        self._entry = entry
        self._origin = Origin(folder / f"{entry.stem}.py", entry.source_sha256)
        self._jit = jit
        self._kernels = {kernel.name: kernel for kernel in entry.kernels}
        self._images = _ImageProvider(folder, entry)
        self._compiling = _Compiler(_SourceReader(folder, entry), jit)
        self._loader = KernelLoader(
            [self._images, self._compiling],
            functools.partial(advise, folder, entry),
            functools.partial(record, folder, entry.stem),
            origin=(str(folder), entry.stem),
        )

    @property
    def stem(self) -> str:
        """The module's name."""
        return self._entry.stem

    @property
    def compiles(self) -> bool:
        """Whether kernels without an image may be compiled at run time."""
        return config.jit_mode(self._jit) != "never"

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """Names of the kernels, in the order of the spec file."""
        return tuple(self._kernels)

    def kernel(self, name: str) -> KernelCallable[Any]:
        """Return a kernel of any kind."""
        declaration = self._kernels.get(name)
        if declaration is None:
            raise self._missing(name)
        kind: type[KernelCallable[Any]] = _KINDS[declaration.kind]
        if isinstance(declaration, RawDeclaration) and declaration.rules:
            kind = RawFunction
        return self._open(kind, declaration)

    def elementwise(self, name: str) -> ElementwiseCallable:
        """Return an elementwise kernel."""
        return self._open(ElementwiseCallable, self._declaration(name, ElementwiseDeclaration))

    def reduction(self, name: str) -> ReductionCallable:
        """Return a reduction kernel."""
        return self._open(ReductionCallable, self._declaration(name, ReductionDeclaration))

    def raw(self, name: str) -> RawCallable:
        """Return a raw kernel."""
        return self._open(RawCallable, self._declaration(name, RawDeclaration))

    def raw_function(self, name: str) -> RawFunction:
        """Return a raw kernel whose spec says how it is launched."""
        return self._open(RawFunction, self._declaration(name, RawDeclaration))

    def _open(self, kind: type[_KernelT], declaration: Any) -> _KernelT:
        name = declaration.backward
        gradients = functools.partial(self._anywhere, name) if name else None
        kernel = kind(declaration, self._loader, gradients)
        kernel.origin = self._origin
        return kernel

    def _anywhere(self, name: str) -> KernelCallable[Any]:
        """Return a kernel of this module, or of another one of the package."""
        if name in self._kernels:
            return self.kernel(name)
        for entry in read_manifest(self._folder).modules:
            if any(kernel.name == name for kernel in entry.kernels):
                return GeneratedModule(self._folder, entry, self._jit).kernel(name)
        raise ManifestError(f"the package has no kernel {name!r}; run `kspec build`")

    def shipped(self, wanted: Wanted, device: Device) -> Image | None:
        """Return the precompiled image that holds a kernel for a device, if there is one."""
        return self._images.find(wanted, device)

    def source(self, wanted: Wanted) -> CudaSource:
        """Return the source of a kernel without a precompiled image."""
        return self._compiling.source(wanted)

    def load(self, wanted: Wanted, device: Device) -> LoadedKernel:
        """Load a kernel as its first call would; errors as for `KernelLoader.kernel`."""
        return self._loader.kernel(wanted, device)

    def _declaration(self, name: str, kind: type[_DeclarationT]) -> _DeclarationT:
        declaration = self._kernels.get(name)
        if not isinstance(declaration, kind):
            raise self._missing(name)
        return declaration

    def _missing(self, name: str) -> ManifestError:
        return ManifestError(
            f"module {self._entry.stem} has no such kernel {name!r}; run `kspec build`"
        )


class _ImageProvider(Provider):
    """Answers with the module's fatbin when it holds the kernel for the device."""

    def __init__(self, folder: Path, entry: ModuleEntry) -> None:
        self._folder = folder
        self._entry = entry
        self._image: Image | None = None
        self._lock = make_lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._folder, self._entry)

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Return the module's image, or None if it cannot serve this kernel there.

        Raises
        ------
        ManifestError
            If the image is not the one the manifest describes.
        """
        entry = self._entry.image
        if device.is_host or entry is None or config.jit_mode() == "always":
            return None
        if wanted.name_expression not in entry.symbols:
            return None
        if not fits(entry.archs, driver.compute_capability(device.ordinal)):
            return None
        with self._lock:
            if self._image is None:
                self._image = self._read(entry)
            return self._image

    def describe(self, wanted: Wanted) -> str:
        """Return the image's specializations of the wanted kernel, a line for each."""
        entry = self._entry.image
        if entry is None:
            return f"{self._entry.stem} has no compiled image; `kspec build` makes it"
        kernel = wanted.name_expression.partition("<")[0]
        lines = "".join(f"\n    {line}" for line in _instances(kernel, entry.symbols))
        return f"{entry.file} has, for {', '.join(entry.archs)}:{lines or ' nothing of it'}"

    def _read(self, entry: ImageEntry) -> Image | None:
        path = self._folder / entry.file
        try:
            code = read_regular(path)
        except FileNotFoundError:
            return None  # a clone that has not been built: compile instead
        except OSError as error:
            raise _unreadable(path, error) from error
        if hashlib.sha256(code).hexdigest() != entry.sha256:
            raise ManifestError(
                f"{path} is not the image that {manifest.FILE_NAME} describes; run `kspec build`"
            )
        return Image("fatbin", ",".join(entry.archs), code, entry.symbols)


class _Compiler(CompilingProvider):
    """Compiles a raw kernel without the others of its module where these do not compile."""

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Compile and return the image; None when compiling is forbidden."""
        try:
            return super().find(wanted, device, sanitize)
        except CompileError:
            source = self.source(wanted)
            if len(source.name_expressions) == 1:
                raise
            alone = OneSource(replace(source, name_expressions=(wanted.name_expression,)))
            return CompilingProvider(alone, self.jit).find(wanted, device, sanitize)


class _SourceReader:
    """Reads the shipped ``.cu`` when something has to be compiled from it."""

    def __init__(self, folder: Path, entry: ModuleEntry) -> None:
        self._folder = folder
        self._entry = entry

    def __call__(self, wanted: Wanted) -> CudaSource:
        """Return the source of a kernel.

        Raises
        ------
        ManifestError
            If the text is not the one that the manifest describes: what is compiled of it would
            not fit the images beside it.
        """
        entry, name = self._entry, f"{self._entry.stem}.cu"
        text, headers = self._read(name), [(one, self._read(one)) for one in entry.headers]
        if manifest.source_digest(text, headers) != entry.source_sha256:
            files = " or ".join([name, *entry.headers])
            raise ManifestError(
                f"{self._folder / files} is not the text that {manifest.FILE_NAME} describes; edit "
                f"{entry.spec} instead, and run `kspec build`"
            )
        return CudaSource(
            name,
            _with_types(text.decode(), wanted, name),
            self._names(wanted),
            tuple(Header(one, header.decode()) for one, header in headers),
            entry.options,
        )

    def _names(self, wanted: Wanted) -> tuple[str, ...]:
        """Return the kernels to compile: raw ones together, as their module has been built.

        Variables of the device are then the same for all of them.
        """
        name = wanted.name_expression
        if isinstance(wanted, Specialization):
            return (name,)
        kernels = [one for one in self._entry.kernels if isinstance(one, RawDeclaration)]
        return tuple(dict.fromkeys([*(x for one in kernels for x in one.name_expressions), name]))

    def _read(self, name: str) -> bytes:
        try:
            return read_regular(self._folder / name)
        except OSError as error:
            raise _unreadable(self._folder / name, error) from error


def _instances(kernel: str, symbols: Iterable[str]) -> Iterator[str]:
    """Yield the instances of a kernel; those that differ in their layout only on one line.

    >>> list(_instances("f", ["f<int, kspec::Flat>", "f<int, kspec::Packs>", "g<kspec::Flat>"]))
    ['f<int, Flat | Packs>']
    >>> stages = [to_aggregates("kspec::Lines"), from_aggregates("kspec::Strided<8>")]
    >>> list(_instances("f", [f"f<int, {layout}>" for layout in (*stages, "kspec::Lines")]))
    ['f<int, Lines | parts>']
    """
    layouts: dict[str, list[str]] = {}
    for symbol in sorted(symbols):
        if symbol.partition("<")[0] == kernel:
            stage = _STAGE.search(symbol)
            types, _, layout = symbol.rpartition("kspec::")
            if stage:
                types, layout = symbol[: stage.start()], "parts>"
            layouts.setdefault(types, []).append(layout.removesuffix(">") if types else layout)
    for types, names in layouts.items():
        some = sorted(set(names))
        yield f"{types}{' | '.join(some)}>" if types else ", ".join(some)


def _with_types(text: str, wanted: Wanted, name: str) -> str:
    """Return a shipped text with the headers and structs of types that it was not written for."""
    if not isinstance(wanted, Specialization):
        return text  # raw kernels include what they use
    missing = prelude((dtype for _, dtype in wanted.binding), text)
    return f'{missing}#line 1 "{name}"\n{text}' if missing else text
