#pragma once

#include "cupy/complex.cuh"
