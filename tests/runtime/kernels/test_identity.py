"""What a kernel is called in other processes: a name and a digest, or its declaration."""

from __future__ import annotations

import importlib
import pickle
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kspec_kernels import norms

import kspec
from kspec.runtime.kernels import identity
from kspec.runtime.kernels.identity import DeclaredKernel, PackagedKernel, identity_of, kernel_of
from kspec.runtime.package import open_module
from tests.projects import ROOT, run_python

PACKAGE = ROOT / "generated" / "kspec_kernels"
ASK = """
import pickle, sys
print(pickle.loads(bytes.fromhex(sys.argv[1])).kernel())
"""


def declared(operation: str = "y = x") -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel("T x", "T y", operation, "identified")


class TestGenerated:
    def test_it_is_a_name_and_a_digest(self) -> None:
        found = identity_of(norms._l2norm)
        assert isinstance(found, PackagedKernel)
        assert (found.module, found.name) == ("kspec_kernels.norms", "l2norm")
        assert len(pickle.dumps(found)) < 400
        # Commands that other tests run in this process import the package anew.
        assert found.kernel() is importlib.import_module("kspec_kernels.norms")._l2norm
        assert pickle.loads(pickle.dumps(found)).kernel() is norms._l2norm

    def test_digests_differ(self) -> None:
        assert identity_of(norms._l2norm).digest != identity_of(norms._l2_norm_sq).digest

    def test_functions_are_their_kernels(self) -> None:
        assert kernel_of(norms.l2norm) is norms._l2norm
        assert kernel_of(norms._l2norm) is norms._l2norm

    def test_it_has_a_name_only_if_it_was_imported(self, tmp_path: Path) -> None:
        shutil.copytree(PACKAGE, tmp_path / "elsewhere")
        kernel = open_module(str(tmp_path / "elsewhere" / "norms.py"), "norms").reduction("l2norm")
        with pytest.raises(kspec.LoadError, match=r"l2norm of .* import its package"):
            identity_of(kernel)


class TestOtherProcesses:
    @pytest.fixture
    def wanted(self) -> str:
        return pickle.dumps(identity_of(norms._l2norm)).hex()

    def test_it_is_found(self, wanted: str) -> None:
        said = run_python(ASK.replace("sys.argv[1]", repr(wanted)), ROOT, ROOT / "generated")
        assert said.strip() == repr(norms._l2norm)

    def test_the_package_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        missing = PackagedKernel("no_such_package.norms", "l2norm", "5f0c", "1.2")
        with pytest.raises(kspec.LoadError) as caught:
            missing.kernel()
        text = str(caught.value)
        assert "l2norm is a kernel of no_such_package.norms, which cannot be imported" in text
        assert f"install no_such_package 1.2 in its environment ({sys.prefix})" in text

    @pytest.fixture
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """A package of the same name as one that the caller had, but with another source."""
        shutil.copytree(PACKAGE, tmp_path / "versioned_kernels")
        monkeypatch.syspath_prepend(str(tmp_path))
        yield tmp_path / "versioned_kernels"
        for name in [one for one in sys.modules if one.startswith("versioned_kernels")]:
            del sys.modules[name]

    def test_it_is_another_version(self, package: Path) -> None:
        old = PackagedKernel("versioned_kernels.norms", "l2norm", "5f0c" * 16, "1.2")
        with pytest.raises(kspec.LoadError) as caught:
            old.kernel()
        text = str(caught.value)
        assert "versioned_kernels.norms.l2norm is another version in this process" in text
        assert "the caller has versioned_kernels 1.2 (digest 5f0c5f0c5f0c)" in text
        assert f"in {package}. Install the same package in both" in text

    def test_it_has_no_such_kernel(self, package: Path) -> None:
        new = PackagedKernel("versioned_kernels.norms", "l3norm", "5f0c" * 16)
        with pytest.raises(
            kspec.LoadError, match=r"this process versioned_kernels \(digest none\)"
        ):
            new.kernel()

    def test_the_same_source_is_the_same_kernel(self, package: Path) -> None:
        found = identity_of(norms._l2norm)
        again = PackagedKernel("versioned_kernels.norms", "l2norm", found.digest)
        assert again.kernel().__name__ == "l2norm"

    def test_functions_outlive_their_module(self, package: Path) -> None:
        """Programs that import a package anew keep functions of the one before."""
        found = importlib.import_module("versioned_kernels.norms")
        del sys.modules["versioned_kernels.norms"]
        assert kernel_of(found.l2norm) is found._l2norm

    def test_versions_of_distributions(self) -> None:
        assert identity._version("pytest.fixtures") == pytest.__version__
        assert identity._version("no_such_package") == ""


class TestDeclared:
    def test_equal_declarations_are_one_kernel(self) -> None:
        one, other = identity_of(declared()), identity_of(declared())
        assert isinstance(one, DeclaredKernel)
        assert one == other
        assert one.kernel() is other.kernel()
        assert one != identity_of(declared("y = -x"))

    def test_pickles(self) -> None:
        kernel = declared("y = x + 7")
        again = pickle.loads(pickle.dumps(identity_of(kernel)))
        assert again.kernel() is identity_of(kernel).kernel()

    def test_other_processes_have_it_too(self) -> None:
        wanted = pickle.dumps(identity_of(declared("y = x + 8"))).hex()
        code = f"""
import pickle
import numpy as np
one, other = (pickle.loads(bytes.fromhex({wanted!r})).kernel() for _ in range(2))
assert one is other
print(one(np.ones(2)))
"""
        assert run_python(code, ROOT).strip() == "[9. 9.]"


@pytest.mark.parametrize("value", [np.add, len, "l2norm", None, run_python])
def test_what_is_no_kernel(value: object) -> None:
    with pytest.raises(
        kspec.ArgumentTypeError, match="expected an elementwise or reduction kernel"
    ):
        kernel_of(value)
