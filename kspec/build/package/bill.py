"""A plan and its images in, the bill of materials of a wheel out: CycloneDX, as JSON text.

::

    toy_kernels/squares.square.fatbin  its digest, what it was compiled for and by which compiler
      toy_kernels/squares.cu           the text that was compiled, and the headers of the project
        specs/squares.toml             the spec file that renders to it
      kspec                            whose headers are in it
      CCCL, CUDA's own headers         where the text includes them: their versions and licences

The build hook puts it where PEP 770 looks: ``*.dist-info/sboms/kspec.cdx.json``.  Same build, same
bytes: no time, and a serial number that is a digest.

Sources: https://cyclonedx.org/docs/1.6/json, https://peps.python.org/pep-0770.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kspec import __version__
from kspec.build.images import Built, images_of
from kspec.build.plan import BuildPlan, Unit
from kspec.dataclass import dataclass
from kspec.files import read_regular

FILE_NAME = "kspec.cdx.json"

# What `kspec.compiler.key.compiler_fingerprint` says of the headers that an image was made with.
_TOOLKIT = re.compile(r"\bcudart (?P<cudart>\d+\.\d+)(?:, cccl (?P<cccl>\d+))?")


@dataclass(frozen=True)
class Distribution:
    """Name and version of the distribution whose wheel it is."""

    name: str
    version: str

    @property
    def purl(self) -> str:
        """The package URL of one on PyPI, by the normalized name."""
        return f"pkg:pypi/{re.sub(r'[-_.]+', '-', self.name).lower()}@{self.version}"


@dataclass(frozen=True)
class Component:
    """Something that the wheel has, or that something in it was made of.

    Attributes
    ----------
    name, kind, version, purl : str
        As CycloneDX has them; empty where there is none.
    sha256 : str
        Digest of a file.
    licence : str
        An SPDX expression.
    properties : tuple of (str, str)
        What CycloneDX has no field for.
    made_of : tuple of str
        The `ref` of other components.
    """

    name: str
    kind: str
    version: str = ""
    purl: str = ""
    sha256: str = ""
    licence: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    made_of: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """The name by which other components refer to it."""
        return f"{self.name}@{self.version}" if self.version else self.name


_KSPEC = Component(
    "kspec", "library", __version__, Distribution("kspec", __version__).purl, licence="MIT"
)


def render_bill(
    distribution: Distribution, plan: BuildPlan, images: Mapping[str, Built], place: str
) -> str:
    """Return the bill of materials of a wheel.

    Parameters
    ----------
    distribution : Distribution
        The project that is built.
    plan : BuildPlan
        What was built.
    images : mapping of str to Built
        Every image by name.
    place : str
        Folder of the generated package in the wheel, ``"toy/_kernels"``.

    Raises
    ------
    OSError
        A spec file cannot be read.
    """
    found: dict[str, Component] = {}
    for unit in plan.units:
        built = [one for _, one in images_of(unit, images)]
        for component in _components(plan, unit, built, place):
            found[component.ref] = component
    compilers = sorted({built.entry.compiler.split(", ")[0] for built in images.values()})
    tools = [_KSPEC, *(_compiler(one) for one in compilers)]
    return _dump(distribution, tools, [found[ref] for ref in sorted(found)])


def _components(
    plan: BuildPlan, unit: Unit, images: Iterable[Built], place: str
) -> Iterator[Component]:
    """Yield the files of a module, and all that they were made of."""
    spec = unit.spec_file.path
    yield Component(spec, "file", sha256=_sha256(read_regular(plan.settings.project / spec)))
    yield _KSPEC
    texts = {unit.source.name: unit.source.text}
    texts |= {header.name: header.text for header in unit.source.headers}
    sources = []
    for name, text in texts.items():
        made_of = (spec, _KSPEC.ref) if name == unit.source.name else ()
        source = Component(
            f"{place}/{name}", "file", sha256=_sha256(text.encode()), made_of=made_of
        )
        sources.append(source.ref)
        yield source
    for entry in (built.entry for built in images):
        libraries = tuple(_libraries(entry.compiler))
        yield from libraries
        yield Component(
            f"{place}/{entry.file}",
            "file",
            sha256=entry.sha256,
            properties=(
                ("kspec:archs", " ".join(entry.archs)),
                ("kspec:compiler", entry.compiler),
            ),
            made_of=(*sources, _KSPEC.ref, *(library.ref for library in libraries)),
        )


def _libraries(compiler: str) -> Iterator[Component]:
    """Yield the libraries of headers beside kspec's that an image was compiled with."""
    match = _TOOLKIT.search(compiler)
    if match is None:
        return
    yield Component(
        "CUDA runtime headers",
        "library",
        match["cudart"],
        licence="LicenseRef-NVIDIA-Proprietary",
    )
    if match["cccl"]:
        # libcu++, CUB and Thrust, in this order.
        licence = "Apache-2.0 WITH LLVM-exception AND BSD-3-Clause AND Apache-2.0"
        yield Component("CCCL", "library", _cccl_version(int(match["cccl"])), licence=licence)


def _cccl_version(number: int) -> str:
    """Return ``"3.0.1"`` for 3000001, as CCCL_VERSION says it."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def _compiler(fingerprint: str) -> Component:
    """Return the compiler of ``"nvrtc V13.0.88 CL-36424714"``."""
    name, _, version = fingerprint.partition(" ")
    return Component(name, "application", version)


def _dump(distribution: Distribution, tools: list[Component], components: list[Component]) -> str:
    built = Component(distribution.name, "library", distribution.version, distribution.purl)
    bill: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [_fields(one) for one in tools]},
            "component": {"bom-ref": distribution.purl, **_fields(built)},
        },
        "components": [{"bom-ref": one.ref, **_fields(one)} for one in components],
        "dependencies": [
            {"ref": distribution.purl, "dependsOn": [one.ref for one in components]},
            *({"ref": one.ref, "dependsOn": list(one.made_of)} for one in components),
        ],
    }
    digest = hashlib.sha256(json.dumps(bill, sort_keys=True).encode()).digest()
    bill["serialNumber"] = uuid.UUID(bytes=digest[:16], version=4).urn
    return json.dumps(bill, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _fields(component: Component) -> dict[str, Any]:
    """Return a component as CycloneDX writes it: without fields that are empty."""
    fields = {
        "type": component.kind,
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
        "hashes": [{"alg": "SHA-256", "content": component.sha256}] if component.sha256 else [],
        "licenses": [{"expression": component.licence}] if component.licence else [],
        "properties": [{"name": name, "value": value} for name, value in component.properties],
    }
    return {name: value for name, value in fields.items() if value}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
