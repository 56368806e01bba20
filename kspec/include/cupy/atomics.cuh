#pragma once

#include "cupy/carray.cuh"
#include "kspec/atomics.cuh"
#include "kspec/half.cuh"
