"""GPUs that reviews reckon with: their numbers, from NVIDIA's data sheets and measured copies.

>>> machine_of("sm_90").name
'H200'
"""

from __future__ import annotations

from kspec.dataclass import dataclass
from kspec.errors import NotSupportedError


@dataclass(frozen=True)
class Machine:
    """A GPU.

    Attributes
    ----------
    name, arch : str
        What it is called, and its architecture.
    multiprocessors : int
        Number of them.
    clock : float
        Cycles in a second, as it runs under load.
    copy : float
        Bytes in a second, read and written, that a copy between two large arrays moves.
    l2_bandwidth : float
        Bytes in a second between the second cache and all multiprocessors.
    l1_bytes : int
        Bytes of a multiprocessor's first cache and shared memory together.
    l2_bytes : int
        Bytes that the second cache keeps.
    """

    name: str
    arch: str
    multiprocessors: int
    clock: float
    copy: float
    l2_bandwidth: float
    l1_bytes: int
    l2_bytes: int


# The first of an architecture stands for it. Copies of H200 and H100 were measured, the others are
# 0.9 of the data sheet's bandwidth.
MACHINES = (
    Machine("H200", "sm_90", 132, 1.83e9, 4.25e12, 5.8e12, 256 << 10, 50 << 20),
    Machine("H100", "sm_90", 132, 1.75e9, 3.0e12, 5.6e12, 256 << 10, 50 << 20),
    Machine("A100", "sm_80", 108, 1.41e9, 1.8e12, 4.0e12, 192 << 10, 40 << 20),
    Machine("A10", "sm_86", 72, 1.60e9, 0.54e12, 1.9e12, 128 << 10, 6 << 20),
    Machine("L40S", "sm_89", 142, 2.30e9, 0.78e12, 4.2e12, 128 << 10, 96 << 20),
    Machine("B200", "sm_100", 148, 1.85e9, 7.0e12, 9.0e12, 256 << 10, 126 << 20),
    Machine("RTX 5090", "sm_120", 170, 2.40e9, 1.6e12, 6.0e12, 128 << 10, 96 << 20),
)
ARCHS = tuple(dict.fromkeys(one.arch for one in MACHINES))


def machine_of(name: str) -> Machine:
    """Return a machine by its name or its architecture.

    Raises
    ------
    NotSupportedError
        If it is not one of `MACHINES`.
    """
    for one in MACHINES:
        if name in (one.name, one.arch):
            return one
    known = ", ".join(f"{one.name} ({one.arch})" for one in MACHINES)
    raise NotSupportedError(f"no figures of a GPU {name!r}; there are {known}")
