// __nv_bfloat16 and __nv_bfloat162 for the host device.
#pragma once

#include "kspec_host/small_float.h"

#define KSPEC_SMALL __nv_bfloat16
#define KSPEC_SMALL2 __nv_bfloat162
#define KSPEC_SMALL_RAW __nv_bfloat16_raw
#define KSPEC_SMALL2_RAW __nv_bfloat162_raw
#define KSPEC_SMALL_FORMAT kspec_host::BrainFormat
#define KSPEC_SMALL_NAME(BEFORE, AFTER) BEFORE##bfloat16##AFTER
#include "kspec_host/small_float_type.h"
#include "kspec_host/small_float_functions.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
