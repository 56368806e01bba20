"""The JSON index of a generated package: which kernels, how they are called, what is compiled.

Author time writes it, run time reads it; nothing else crosses.  `dump` and `load` are inverse:
``load(dump(manifest)) == manifest``.  Its last line is a digest of those before, so that one that
was damaged, cut off or merged by hand is noticed when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.errors import ManifestError
from kspec.model.declaration import (
    Declaration,
    ElementwiseDeclaration,
    RawDeclaration,
    ReductionDeclaration,
)
from kspec.model.signature import CParam, Param, Signature
from kspec.model.stages import Figures

if TYPE_CHECKING:
    from kspec.model.coverage import Coverage
    from kspec.model.neighbours.samples import Sample
    from kspec.model.neighbours.windows import Window
    from kspec.model.raw.launch_rules import LaunchRules
    from kspec.model.tuning import Tuned

SCHEMA = 4
FILE_NAME = "manifest.json"
# What is between the JSON and its digest.
_SEAL = ',\n "sha256": "'


class OtherSchemaError(ManifestError):
    """Another kspec has written a manifest, in a format that this one does not read."""


class NewerSchemaError(OtherSchemaError):
    """A newer kspec has written a manifest."""


@dataclass(frozen=True)
class ImageEntry:
    """A kernel's compiled half, or that of the raw kernels of one text.

    Attributes
    ----------
    file : str
        Name of the fatbin in the package.
    sha256 : str
        Digest of its bytes.
    archs : tuple of str
        What is in it: ``("sm_80", "compute_80")``.
    compiler : str
        Exact version of the compiler that made it.
    symbols : mapping of str to str
        Name expression to lowered name.
    figures : mapping of str to (mapping of str to Figures)
        Arch, then name expression, to resources.
    key : str
        Digest of everything it was made from; an equal one means nothing to compile.
    source : str
        Digest of the text alone, which needs no compiler.
    """

    file: str
    sha256: str
    archs: tuple[str, ...]
    compiler: str
    symbols: Mapping[str, str]
    figures: Mapping[str, Mapping[str, Figures]] = field(default_factory=dict)
    key: str = ""
    source: str = ""


@dataclass(frozen=True)
class ModuleEntry:
    """One spec file: one Python module, one ``.cu``, some images.

    Attributes
    ----------
    stem : str
        Name of all of them.
    spec : str
        Path of the spec file in its project.
    source_sha256 : str
        Digest of the ``.cu`` and of its headers (`source_digest`).
    kernels : tuple of Declaration
        In the order of the spec file.
    precompiled : tuple of str
        Name expressions that the build compiles.
    options : tuple of str
        Compiler options of the specs.
    headers : tuple of str
        The user's headers, shipped beside the ``.cu``.
    images : tuple of ImageEntry
        The compiled images; none where only text was generated.
    coverage : mapping of str to Coverage
        Kernel to the precompiled specializations in its spec.
    tuned : mapping of str to (tuple of Tuned)
        Kernel to what `kspec tune` has measured of it.
    """

    stem: str
    spec: str
    source_sha256: str
    kernels: tuple[Declaration, ...]
    precompiled: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    images: tuple[ImageEntry, ...] = ()
    coverage: Mapping[str, Coverage] = field(default_factory=dict)
    tuned: Mapping[str, tuple[Tuned, ...]] = field(default_factory=dict)

    def image_of(self, name_expression: str) -> ImageEntry | None:
        """Return the image that holds an instance of a kernel, if one does."""
        return next((one for one in self.images if name_expression in one.symbols), None)


@dataclass(frozen=True)
class Manifest:
    """All modules of a generated package, sorted by stem.

    Attributes
    ----------
    jit : str
        ``"never"`` if the package says that none of its kernels is compiled at run time, else
        ``"auto"``.
    """

    package: str
    modules: tuple[ModuleEntry, ...]
    jit: str = "auto"

    def module(self, stem: str) -> ModuleEntry:
        """Return a module's entry; raise `ManifestError` if there is none."""
        for entry in self.modules:
            if entry.stem == stem:
                return entry
        raise _no_module(self.package, stem)


def dump(manifest: Manifest) -> str:
    """Return the manifest as JSON text: sorted keys, one trailing newline, same bytes always."""
    data = {
        "schema": SCHEMA,
        "package": manifest.package,
        "modules": [_module_data(entry) for entry in manifest.modules],
        "jit": manifest.jit,
    }
    text = json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False).removesuffix("\n}")
    return f'{text}{_SEAL}{_digest(text)}"\n}}\n'


def load(text: str, path: str = FILE_NAME) -> Manifest:
    """Return the manifest in a JSON text; errors are those of `Index` and of its modules."""
    index = Index(text, path)
    return Manifest(index.package, tuple(map(index.module, index.stems)), index.jit)


class Index:
    """A manifest of which each module is read when it is asked for.

    An import wants one of them: reading all of kspec's own was a tenth of its time.

    Parameters
    ----------
    text : str
        JSON.
    path : str
        Where it is from, for messages.

    Attributes
    ----------
    package, jit : str
        As in `Manifest`.
    stems : tuple of str
        Names of the modules, sorted.

    Raises
    ------
    OtherSchemaError
        If another kspec has written it; `NewerSchemaError` if a newer one.
    ManifestError
        If it is damaged.
    """

    def __init__(self, text: str, path: str = FILE_NAME) -> None:
        self._path = path
        self._entries: dict[str, ModuleEntry] = {}
        with _damage(path):
            data = _opened(text, path)
            self._data: dict[str, Any] = {one["stem"]: one for one in data["modules"]}
            self.stems = tuple(self._data)
            self.package: str = data["package"]
            self.jit: str = data["jit"]

    def module(self, stem: str) -> ModuleEntry:
        """Return a module's entry; raise `ManifestError` if there is none, or it is damaged."""
        if stem not in self._data:
            raise _no_module(self.package, stem)
        with _damage(self._path):
            return self._entries.get(stem) or self._entries.setdefault(
                stem, _module(self._data[stem])
            )


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Report what JSON of another form leads to."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestError(f"{path} is damaged ({error!r}); run `kspec build` again") from error


def _opened(text: str, path: str) -> dict[str, Any]:
    """Return the data of a manifest whose schema and digest are right."""
    data: dict[str, Any] = json.loads(text)
    if data["schema"] != SCHEMA:
        newer = data["schema"] > SCHEMA
        advice = "upgrade kspec" if newer else "run `kspec build` again"
        raise (NewerSchemaError if newer else OtherSchemaError)(
            f"{path} has schema {data['schema']}, this kspec knows {SCHEMA}: {advice}"
        )
    sealed, _, _ = text.rpartition(_SEAL)
    if data["sha256"] != _digest(sealed):
        raise ManifestError(
            f"{path} is not as it was written (its sha256 differs); run `kspec build` again"
        )
    return data


def _no_module(package: str, stem: str) -> ManifestError:
    return ManifestError(f"package {package} has no module {stem!r}; run `kspec build`")


def source_digest(text: bytes, headers: Iterable[tuple[str, bytes]]) -> str:
    """Return the digest of a module's ``.cu`` and of the headers that are shipped beside it."""
    digest = hashlib.sha256(text)
    for name, header in headers:
        digest.update(f"\0{name}\0{len(header)}\0".encode() + header)
    return digest.hexdigest()


def shipped_headers(text: str) -> frozenset[str]:
    """Return the headers that a manifest lists, of another kspec too; none if it is damaged."""
    try:
        return frozenset(name for one in json.loads(text)["modules"] for name in one["headers"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return frozenset()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _module_data(entry: ModuleEntry) -> dict[str, Any]:
    from kspec.model.tuning import tuned_data

    data = asdict(entry)
    data["kernels"] = [declaration_data(kernel) for kernel in entry.kernels]
    for image in data["images"]:  # numbers in the order of `Figures`: their names are half of them
        for table in image["figures"].values():
            table.update({name: [*numbers.values()] for name, numbers in table.items()})
    del data["tuned"]
    if entry.tuned:
        data["tuned"] = {name: [*map(tuned_data, rows)] for name, rows in entry.tuned.items()}
    return data


def declaration_data(kernel: Declaration) -> dict[str, Any]:
    """Return a declaration as JSON can say it; `declaration_of` undoes it."""
    data: dict[str, Any] = {"kind": kernel.kind}
    for name, value in vars(kernel).items():
        data[name] = [*map(_param_data, value)] if isinstance(value, Signature) else value
    # What most kernels have not is left out.
    rare = ["counts", "single", "backward", "forward", "numbers", "indexers"]
    rare += ["windows", "sizes", "adjoint", "samples", "forms", "forms_only", "joins"]
    rare += ["counted", "strict_keys", "sums", "updates", "loads_outputs", "subscripts"]
    rare += ["raw_views"] if isinstance(kernel, ReductionDeclaration) else []
    for name in rare:
        if not data.get(name, True):
            del data[name]
    if data.get("threads") == 1:
        del data["threads"]
    for name in ("windows", "samples"):
        if name in data:
            data[name] = [asdict(one) for one in data[name]]
    if "adjoint" in data:
        data["adjoint"] = asdict(data["adjoint"])
    if isinstance(kernel, RawDeclaration):
        del data["rules"], data["structs"], data["cooperative"]
        data |= {"rules": _rules_data(kernel.rules)} if kernel.rules else {}
        data |= {"structs": kernel.structs} if kernel.structs else {}
        data |= {"cooperative": True} if kernel.cooperative else {}
        if kernel.params is not None:
            data["params"] = [*map(_c_param_data, kernel.params)]
    return data


def _rules_data(rules: LaunchRules) -> dict[str, Any]:
    data = asdict(rules)
    for name in ("returns", "fixed", "template"):
        if not data[name]:
            del data[name]
    return data


def _param_data(param: Param) -> dict[str, Any]:
    data = asdict(param)
    for name in ("core", "ndim"):
        if not data[name] and data[name] != 0:
            del data[name]
    return data


def _c_param_data(param: CParam) -> dict[str, Any]:
    data = asdict(param)
    if not param.nullable:
        del data["nullable"]
    return data


def _module(data: dict[str, Any]) -> ModuleEntry:
    from kspec.model.tuning import tuned_of

    return ModuleEntry(
        stem=data["stem"],
        spec=data["spec"],
        source_sha256=data["source_sha256"],
        kernels=tuple(map(declaration_of, data["kernels"])),
        precompiled=tuple(data["precompiled"]),
        options=tuple(data["options"]),
        headers=tuple(data["headers"]),
        images=tuple(map(_image, data["images"])),
        coverage={name: _coverage(one) for name, one in data.get("coverage", {}).items()},
        tuned={name: tuple(map(tuned_of, rows)) for name, rows in data.get("tuned", {}).items()},
    )


def _coverage(data: dict[str, Any]) -> Coverage:
    from kspec.model.coverage import Coverage

    types, layouts = data["types"], tuple(data["layouts"])
    if not isinstance(types, dict):
        return Coverage(data["line"], tuple(types), layouts)
    lists = {letter: tuple(names) for letter, names in types.items()}
    return Coverage(data["line"], lists, layouts)


def _image(data: dict[str, Any]) -> ImageEntry:
    figures = {
        arch: {name: Figures(*numbers) for name, numbers in kernels.items()}
        for arch, kernels in data["figures"].items()
    }
    return ImageEntry(**{**data, "archs": tuple(data["archs"]), "figures": figures})


def declaration_of(data: dict[str, Any]) -> Declaration:
    """Return the declaration of `declaration_data`; raise `ManifestError` for an unknown kind."""
    fields = dict(data)
    kind = fields.pop("kind")
    if kind == RawDeclaration.kind:
        return _raw(fields)
    if kind not in (ElementwiseDeclaration.kind, ReductionDeclaration.kind):
        raise ManifestError(f"unknown kind of kernel {kind!r}: upgrade kspec")
    for side in ("inputs", "outputs"):
        fields[side] = Signature(tuple(map(_param, fields[side])))
    fields["scalars"] = tuple(fields["scalars"])
    fields["numbers"] = tuple(fields.get("numbers", ()))
    fields["updates"] = tuple(fields.get("updates", ()))
    fields["raw_views"] = tuple(fields.get("raw_views", ()))
    fields["sizes"] = tuple((name, tuple(known)) for name, known in fields.get("sizes", ()))
    if kind == ElementwiseDeclaration.kind:
        fields["windows"] = tuple(map(_window, fields.get("windows", ())))
        adjoint = fields.get("adjoint")
        fields["adjoint"] = None if adjoint is None else _window(adjoint)
        fields["samples"] = tuple(map(_sample, fields.get("samples", ())))
        return ElementwiseDeclaration(**fields)
    fields["indexers"] = tuple(fields.get("indexers", ()))
    fields["forms"] = tuple(fields.get("forms", ()))
    return ReductionDeclaration(**fields)


def _param(data: dict[str, Any]) -> Param:
    return Param(**{**data, "core": tuple(data.get("core", ()))})


def _window(data: dict[str, Any]) -> Window:
    from kspec.model.neighbours.windows import Window

    reach = tuple((before, after) for before, after in data["reach"])
    return Window(**{**data, "reach": reach, "boundaries": tuple(data["boundaries"])})


def _sample(data: dict[str, Any]) -> Sample:
    from kspec.model.neighbours.samples import Sample

    return Sample(**{**data, "boundaries": tuple(data["boundaries"])})


def _raw(fields: dict[str, Any]) -> RawDeclaration:
    from kspec.model.raw.launch_rules import LaunchRules

    params, rules = fields["params"], fields.pop("rules", None)
    fields["name_expressions"] = tuple(fields["name_expressions"])
    fields["params"] = None if params is None else tuple(CParam(**one) for one in params)
    if rules is not None:
        fields["rules"] = LaunchRules(
            tuple(rules["grid"]),
            tuple(rules["block"]),
            rules["shared_mem"],
            tuple((name, default) for name, default in rules["defaults"]),
            tuple((name, tuple(shape)) for name, shape in rules.get("returns", ())),
            tuple(rules.get("fixed", ())),
            tuple(rules.get("template", ())),
        )
    fields["structs"] = tuple((name, dtype) for name, dtype in fields.pop("structs", ()))
    return RawDeclaration(**fields)
