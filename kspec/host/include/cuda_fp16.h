// __half and __half2 for the host device.
#pragma once

#include "kspec_host/small_float.h"

#define KSPEC_SMALL __half
#define KSPEC_SMALL2 __half2
#define KSPEC_SMALL_RAW __half_raw
#define KSPEC_SMALL_FORMAT kspec_host::HalfFormat
#define KSPEC_SMALL_NAME(BEFORE, AFTER) BEFORE##half##AFTER
#include "kspec_host/small_float_type.h"

typedef __half half;
typedef __half2 half2;

static inline __half2 __half2half2(__half a) { return __half2(a, a); }
static inline __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
static inline __half2 make_half2(__half a, __half b) { return __half2(a, b); }
static inline __half2 __float2half2_rn(float a) { return __half2(a, a); }
static inline __half2 __floats2half2_rn(float a, float b) { return __half2(a, b); }
static inline __half2 __float22half2_rn(float2 a) { return __half2(a.x, a.y); }
static inline float2 __half22float2(__half2 a) { return make_float2(a.x, a.y); }
