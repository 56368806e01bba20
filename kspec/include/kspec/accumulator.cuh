// What a reduction to T accumulates in, unless its spec says. The headers of types that need more
// bits than they have specialise it, so that reduce.cuh reads none of them.
#pragma once

namespace kspec {

template <class T> struct Accumulator { typedef T type; };

}  // namespace kspec
