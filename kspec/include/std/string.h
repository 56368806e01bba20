// memcpy() and memset() are predefined.
#pragma once

#include <cuda/std/cstring>

using cuda::std::memchr, cuda::std::memcmp, cuda::std::memmove;
