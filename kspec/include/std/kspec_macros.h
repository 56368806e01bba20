// Macros that are constants, as NVRTC has none, unless libcu++ has defined them.
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#endif
#ifndef offsetof
#define offsetof(TYPE, MEMBER) ((size_t)__INTADDR__(&(((TYPE*)0)->MEMBER)))
#endif
