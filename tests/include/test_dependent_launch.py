"""Instructions of programmatic dependent launches, on architectures that have them."""

import pytest

from kspec.model.stages import CudaSource, Target
from tests.compiling import compiled

CODE = """
#include <kspec/dependent_launch.cuh>
extern "C" __global__ void k(int* x) {
  kspec::trigger_programmatic_launch_completion();
  kspec::grid_dependency_synchronize();
  x[0] = 1;
}
"""


@pytest.mark.parametrize(("arch", "expected"), [("compute_80", 0), ("compute_90", 1)])
@pytest.mark.usefixtures("optimized_code")
def test_instructions(arch: str, expected: int) -> None:
    ptx = compiled(CudaSource("k.cu", CODE), Target(arch)).code.decode()
    assert ptx.count("griddepcontrol.launch_dependents;") == expected
    assert ptx.count("griddepcontrol.wait;") == expected
    assert "st.global" in ptx
