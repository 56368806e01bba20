"""Programs and projects whose costs are measured."""

from __future__ import annotations

_HEAD = """
import numpy as np
import kspec
x = np.arange(1000, dtype=np.float32)
"""
# First calls on the host device, each in a process with an empty cache.
FIRST_CALLS = {
    "elementwise": f"""{_HEAD}
f = kspec.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
assert f(x, 1)[3] == 4
""",
    "reduction": f"""{_HEAD}
f = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
assert abs(f(x) - np.linalg.norm(x)) < 1
""",
    "raw": f'''{_HEAD}
code = """
extern "C" __global__ void twice(float* x, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}}
"""
f = kspec.RawKernel(code, "twice")
f((8,), (128,), (x, 1000))
assert x[3] == 6
''',
    "generated": """
import numpy as np
from kspec_kernels import norms
assert norms.l2norm(np.full(4, 2, np.float32)) == 4
""",
}
# Prints the numbers of modules: all, of kspec, of what only declares kernels.
LAZY = f"""
import sys
{_HEAD}
sub = kspec.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x - y", "sub")
l2norm = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
assert sub(x, x).sum() == 0 and abs(l2norm(x) - np.linalg.norm(x)) < 1
names = [*sys.modules]
own = [name for name in names if name.partition(".")[0] == "kspec"]
authoring = [name for name in names if name.partition(".")[0] in ("pydantic", "jinja2")]
print(len(names), len(own), len(authoring))
"""
DOWNSTREAM = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling", "kspec[build]"]
build-backend = "hatchling.build"

[project]
name = "toy"
version = "1.0"

[tool.hatch.build.hooks.kspec]

[tool.kspec]
specs = "specs"
package = "src/toy"
archs = ["sm_80", "sm_90", "sm_100", "sm_120", "compute_80"]
""",
    "specs/toy_math.toml": """
doc = "Three kernels."

[elementwise.axpy]
doc = "Sum of a scaled and a plain array."
inputs = ["T a", "T x", "T y"]
outputs = ["T z"]
operation = "z = a * x + y"
types = { T = ["float32", "float64"] }

[reduction.norm]
doc = "Euclidean norm."
inputs = ["T x"]
outputs = ["T y"]
map = "x * x"
reduce = "a + b"
post_map = "y = sqrt(a)"
identity = "0"
types = { T = ["float32"] }

[raw.fill]
doc = "Write a number to all elements."
code = '''
extern "C" __global__ void fill(float* x, float value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}
'''
params = ["float* x", "float value", "int n"]
""",
}
