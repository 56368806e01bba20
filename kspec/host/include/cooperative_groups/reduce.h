// cooperative_groups::reduce and its operators.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

// Combine the values of all threads of a group in the order of their ranks.
template <class Group, class T, class Operator>
static inline T reduce(const Group& group, T value, Operator combine, KSPEC_HOST_SITE) {
  T total = group.shfl(value, 0, kspec_file, kspec_line);
  for (unsigned int rank = 1; rank < group.size(); rank++)
    total = combine(total, group.shfl(value, rank, kspec_file, kspec_line));
  return total;
}

}  // namespace cooperative_groups
