// Thrust's own does not compile with NVRTC.
#pragma once

#include "cupy/complex.cuh"
