"""Images and sources that a generated package ships, as providers of its kernels.

`kspec.runtime.package` opens packages, and gives each module's `KernelLoader` these providers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kspec import config
from kspec.errors import CompileError, ManifestError
from kspec.files import read_regular
from kspec.locks import make_lock
from kspec.model import manifest
from kspec.model.declaration import RawDeclaration
from kspec.model.manifest import ImageEntry, ModuleEntry
from kspec.model.stages import (
    STAGES,
    CudaSource,
    Figures,
    Header,
    Image,
    Specialization,
)
from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.modules.provider import CompilingProvider, OneSource, Provider, Wanted

# The layouts of stages have layouts in them.
_STAGE = re.compile("|".join(one("").removesuffix(">") for one in STAGES))


def unreadable(path: Path, error: OSError) -> ManifestError:
    """Return the remedy for a file of a package that cannot be read."""
    archive = next((one for one in path.parents if one.is_file()), None)
    if archive is not None:  # Python imports from zip files, which nothing else is read from
        return ManifestError(
            f"{path} cannot be read: {archive} is an archive, and packages of kernels are folders; "
            "install the package, or unpack the archive"
        )
    advice = "run `kspec build`" if isinstance(error, FileNotFoundError) else "see who may read it"
    return ManifestError(f"{path} cannot be read: {error.strerror}; {advice}")


class ImageProvider(Provider):
    """Answers with the fatbin of a module that holds the kernel for the device."""

    def __init__(self, folder: Path, entry: ModuleEntry) -> None:
        self._folder = folder
        self._entry = entry
        self._images: dict[str, Image] = {}
        self._lock = make_lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._folder, self._entry)

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Return the kernel's image, or None if there is none for the device.

        Raises
        ------
        ManifestError
            If the image is not the one the manifest describes.
        """
        from kspec.runtime.driver.archs import fits

        if device.is_host or config.jit_mode() == "always":
            return None
        entry = self._entry.image_of(wanted.name_expression)
        if entry is None or not fits(entry.archs, driver.compute_capability(device.ordinal)):
            return None
        with self._lock:
            image = self._images.get(entry.file) or self._read(entry)
            return image and self._images.setdefault(entry.file, image)

    def figures(self, wanted: Wanted, arch: str) -> Figures | None:
        """Return the figures of the image, which the manifest has."""
        entry = self._entry.image_of(wanted.name_expression)
        known = entry.figures.get(arch, {}) if entry is not None else {}
        return known.get(wanted.name_expression)

    def describe(self, wanted: Wanted) -> str:
        """Return the precompiled specializations of the wanted kernel, a line for each."""
        if not self._entry.images:
            return f"{self._entry.stem} has no compiled images; `kspec build` makes them"
        kernel = wanted.name_expression.partition("<")[0]
        for entry in self._entry.images:
            lines = [f"\n    {line}" for line in _instances(kernel, entry.symbols)]
            if lines:
                return f"{entry.file} has, for {', '.join(entry.archs)}:{''.join(lines)}"
        return f"the images of {self._entry.stem} have nothing of it"

    def _read(self, entry: ImageEntry) -> Image | None:
        path = self._folder / entry.file
        try:
            code = read_regular(path)
        except FileNotFoundError:
            return None  # a clone that has not been built: compile instead
        except OSError as error:
            raise unreadable(path, error) from error
        if hashlib.sha256(code).hexdigest() != entry.sha256:
            raise ManifestError(
                f"{path} is not the image that {manifest.FILE_NAME} describes; run `kspec build`"
            )
        return Image("fatbin", ",".join(entry.archs), code, entry.symbols)


class PackageCompiler(CompilingProvider):
    """Compiles a raw kernel without the others of its module where these do not compile."""

    def __init__(self, source: SourceReader, jit: str = "auto") -> None:
        super().__init__(source, jit)
        self._reader = source

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Compile and return the image; None when compiling is forbidden."""
        try:
            return super().find(wanted, device, sanitize)
        except CompileError as error:
            source = self.source(wanted)
            if len(source.name_expressions) == 1:
                raise self._reader.in_spec(error) from None
            alone = OneSource(replace(source, name_expressions=(wanted.name_expression,)))
            try:
                return CompilingProvider(alone, self.jit).find(wanted, device, sanitize)
            except CompileError as own:
                raise self._reader.in_spec(own) from None


class SourceReader:
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

    def in_spec(self, error: CompileError) -> CompileError:
        """Return an error of the source at its place in the spec file."""
        from kspec.runtime.modules.spec_places import in_spec

        return in_spec(error, self._folder, self._entry.spec)

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
            raise unreadable(self._folder / name, error) from error


def _instances(kernel: str, symbols: Iterable[str]) -> Iterator[str]:
    """Yield the instances of a kernel; those that differ in their layout only on one line.

    >>> list(_instances("f", ["f<int, kspec::Flat>", "f<int, kspec::Packs>", "g<kspec::Flat>"]))
    ['f<int, Flat | Packs>']
    >>> stages = [stage("kspec::Lines") for stage in STAGES]
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
    from kspec.model.definitions import prelude

    if not isinstance(wanted, Specialization):
        return text  # raw kernels include what they use
    missing = prelude((dtype for _, dtype in wanted.binding), text)
    return f'{missing}#line 1 "{name}"\n{text}' if missing else text
