// The constants that generated kernels may use without an include, as in CuPy: CUDART_INF,
// CUDART_NAN, their float versions, and M_PI. NVRTC knows none of them.
#pragma once

// Token for token what math_constants.h has, here and there: a user's preamble may include that
// after this. Including it here would make every kernel look for a toolkit.
#ifdef KSPEC_HOST
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#else
#define CUDART_INF_F            __int_as_float(0x7f800000U)
#define CUDART_NAN_F            __int_as_float(0x7fffffffU)
#define CUDART_INF              __longlong_as_double(0x7ff0000000000000ULL)
#define CUDART_NAN              __longlong_as_double(0xfff8000000000000ULL)
#endif

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
