// assert() inside a kernel is predefined (kspec_host/block.h) and must not become the C library's.
