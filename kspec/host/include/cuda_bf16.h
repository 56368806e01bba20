// __nv_bfloat16 and __nv_bfloat162 for the host device.
#pragma once

#include "kspec_host/small_float.h"

#define KSPEC_SMALL __nv_bfloat16
#define KSPEC_SMALL2 __nv_bfloat162
#define KSPEC_SMALL_RAW __nv_bfloat16_raw
#define KSPEC_SMALL_FORMAT kspec_host::BrainFormat
#define KSPEC_SMALL_NAME(BEFORE, AFTER) BEFORE##bfloat16##AFTER
#include "kspec_host/small_float_type.h"

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162(a, b);
}
static inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162(a, b);
}
static inline __nv_bfloat162 __float2bfloat162_rn(float a) { return __nv_bfloat162(a, a); }
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return __nv_bfloat162(a, b);
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __nv_bfloat162(a.x, a.y); }
static inline float2 __bfloat1622float2(__nv_bfloat162 a) { return make_float2(a.x, a.y); }
