// The CUDA C++ dialect for an ordinary C++17 compiler: what a device compiler defines before the
// first line of a kernel source. compiler/host.py includes it ahead of every source.
//
// The parts include no system header, which halves compile time. Sources that include standard
// headers themselves get KSPEC_HOST_STD=1: those headers then come first, and the math part steps
// back to what they lack. KSPEC_HOST_NO_... leaves out parts that a source does not name
// (compiler/host/unit.py): all of them take half of the time of a small kernel.
#pragma once

#define KSPEC_HOST 1
#ifndef KSPEC_HOST_STD
#define KSPEC_HOST_STD 0
#endif
#if KSPEC_HOST_STD
#include <stdint.h>  // before headers that have such integers from elsewhere

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cstdio>
#if KSPEC_HOST_NVCC  // it includes these by itself
#include <limits.h>
#include <sys/types.h>

#include <cmath>
#endif
#endif

#include "kspec_host/abi.h"
#include "kspec_host/dialect.h"
#include "kspec_host/types.h"
#include "kspec_host/block.h"
#include "kspec_host/shared.h"
#include "kspec_host/sync.h"
#if !KSPEC_HOST_NO_WARPS
#include "kspec_host/warp.h"
#endif
#if !KSPEC_HOST_NO_ATOMICS
#include "kspec_host/atomics.h"
#endif
#include "kspec_host/bits.h"
#if !KSPEC_HOST_NO_SIMD
#include "kspec_host/simd.h"
#endif
#include "kspec_host/math.h"
#include "kspec_host/math_cuda.h"
#if !KSPEC_HOST_NO_ROUNDING
#include "kspec_host/rounding.h"
#include "kspec_host/convert.h"
#endif
#if !KSPEC_HOST_NO_TEXTURES
#include "kspec_host/texture.h"
#endif
#include "kspec_host/device_heap.h"
#if KSPEC_HOST_CHECK_ACCESS
#include "kspec_host/check_access.h"
#endif
#if KSPEC_HOST_REVIEW
#include "kspec_host/check_review.h"
#endif
#if KSPEC_HOST_CHECK_BOUNDS
#include "kspec_host/check_bounds.h"
#include "kspec_host/loops.h"
#endif
#include "kspec_host/entry.h"
#if KSPEC_HOST_CHECK_OBJECTS
#include "kspec_host/check_copies.h"
#endif
#if KSPEC_HOST_CHECK_UNDEFINED || KSPEC_HOST_CHECK_OBJECTS
#include "kspec_host/check_undefined.h"
#endif
