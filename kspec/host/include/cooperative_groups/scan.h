// cooperative_groups::inclusive_scan and exclusive_scan. Those that update an atomic variable of
// libcu++ are not here.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

namespace details {

// Combine the values of the first `count` threads in the order of their ranks; T() if there is none.
template <class Group, class T, class Operator>
static inline T scan(const Group& group, T value, Operator combine, unsigned int count,
                     const char* file, int line) {
  T total = T();
  for (unsigned int rank = 0; rank < group.size(); rank++) {
    T next = group.shfl(value, rank, file, line);
    if (rank < count) total = rank ? combine(total, next) : next;
  }
  return total;
}

}  // namespace details

template <class Group, class T, class Operator>
static inline T inclusive_scan(const Group& group, T value, Operator combine, KSPEC_HOST_SITE) {
  return details::scan(group, value, combine, group.thread_rank() + 1, kspec_file, kspec_line);
}
template <class Group, class T>
static inline T inclusive_scan(const Group& group, T value, KSPEC_HOST_SITE) {
  return inclusive_scan(group, value, plus<T>(), kspec_file, kspec_line);
}
template <class Group, class T, class Operator>
static inline T exclusive_scan(const Group& group, T value, Operator combine, KSPEC_HOST_SITE) {
  return details::scan(group, value, combine, group.thread_rank(), kspec_file, kspec_line);
}
template <class Group, class T>
static inline T exclusive_scan(const Group& group, T value, KSPEC_HOST_SITE) {
  return exclusive_scan(group, value, plus<T>(), kspec_file, kspec_line);
}

}  // namespace cooperative_groups
