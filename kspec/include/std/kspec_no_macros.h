// Ahead of libcu++, which defines these macros itself: NVRTC warns of macros that change. After it
// comes kspec_macros.h, for it does so only once.
#undef INFINITY
#undef NAN
#undef offsetof
