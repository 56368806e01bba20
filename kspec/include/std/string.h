#pragma once

#include <cstring>

#if __has_include(<cuda/std/cstring>)
using cuda::std::memchr, cuda::std::memcmp, cuda::std::memmove;
#endif
