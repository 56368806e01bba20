"""kspec in a zip file: Python imports it, compilers cannot read it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.projects import ROOT

KERNELS = {
    "generated": 'kspec.ElementwiseKernel("T x", "T y", "y = x", "f")(np.ones(2))',
    "raw": """kspec.RawKernel('extern "C" __global__ void q(int* x) {}', "q")((1,), (1,), (np.ones(1),))""",
    "package": "kspec_kernels.math.squared_diff(*np.ones((2, 3), 'f4'))",
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("zip") / "kspec.zip"
    with zipfile.ZipFile(path, "w") as file:
        for one in (ROOT / "kspec").rglob("*"):
            if one.is_file() and "__pycache__" not in one.parts:
                file.write(one, one.relative_to(ROOT))
    return path


@pytest.mark.parametrize("name", KERNELS)
def test_the_error_says_so(archive: Path, tmp_path: Path, name: str) -> None:
    code = f"import numpy as np, kspec, kspec_kernels.math\nprint(kspec.__file__)\n{KERNELS[name]}"
    paths = os.pathsep.join([str(archive), str(ROOT / "generated")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths, "KSPEC_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(str(archive)), done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        f"kspec.errors.ToolNotFoundError: kspec was imported from {archive}, an archive, and compilers "
        "cannot read its headers there; install kspec, or unpack the archive"
    )
