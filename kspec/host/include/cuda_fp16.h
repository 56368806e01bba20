// __half and __half2 for the host device.
#pragma once

#include "kspec_host/small_float.h"

#define KSPEC_SMALL __half
#define KSPEC_SMALL2 __half2
#define KSPEC_SMALL_RAW __half_raw
#define KSPEC_SMALL2_RAW __half2_raw
#define KSPEC_SMALL_FORMAT kspec_host::HalfFormat
#define KSPEC_SMALL_NAME(BEFORE, AFTER) BEFORE##half##AFTER
#include "kspec_host/small_float_type.h"
#include "kspec_host/small_float_functions.h"

typedef __half half;
typedef __half2 half2;

static inline __half2 __half2half2(__half a) { return __half2(a, a); }
