// What some elements make, with how many they are.
#pragma once

namespace kspec {

template <class Acc, class Number> struct Counted {
  Acc value;  // if there are any
  Number count;

  // Take the elements that follow.
  template <class Op, class Other>
  __device__ inline void append(const Op& op, const Counted<Acc, Other>& next) {
    if (!next.count) return;
    value = count ? op._reduce(value, next.value) : next.value;
    count += next.count;
  }
};

}  // namespace kspec
