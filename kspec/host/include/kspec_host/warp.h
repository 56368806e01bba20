// Warp operations: shuffles, votes, match and reduce.
#pragma once

namespace kspec_host {

template <class T>
static inline T shuffle(unsigned mask, T value, int source, const char* name, Site site) {
  T result = value;
  WarpCall call{WARP_SHUFFLE, mask, source, (unsigned)sizeof(T), &value, &result, name, site};
  wait_for_warp(&call);
  return result;
}

static inline unsigned ballot(unsigned mask, bool predicate, const char* name, Site site) {
  unsigned result = 0;
  WarpCall call{WARP_BALLOT, mask, predicate, 0, nullptr, &result, name, site};
  wait_for_warp(&call);
  return result;
}

// Everybody's value, indexed by lane; returns the lanes that took part.
template <class T>
static inline unsigned gather(unsigned mask, T value, T* all, const char* name, Site site) {
  WarpCall call{WARP_GATHER, mask, 0, (unsigned)sizeof(T), &value, all, name, site};
  wait_for_warp(&call);
  return call.mask;
}

template <class T, class F>
static inline T warp_reduce(unsigned mask, T value, F combine, const char* name, Site site) {
  T all[WARP_SIZE];
  unsigned lanes = gather(mask, value, all, name, site);
  T total = all[__builtin_ctz(lanes)];
  for (lanes &= lanes - 1; lanes; lanes &= lanes - 1)
    total = combine(total, all[__builtin_ctz(lanes)]);
  return total;
}

}  // namespace kspec_host

static inline void __syncwarp(unsigned int mask = 0xffffffffu, KSPEC_HOST_SITE) {
  kspec_host::WarpCall call{kspec_host::WARP_SYNC, mask,    0,           0, nullptr,
                            nullptr,               "__syncwarp", KSPEC_HOST_HERE};
  kspec_host::wait_for_warp(&call);
}
static inline unsigned int __activemask(KSPEC_HOST_SITE) {
  unsigned int result = 0;
  kspec_host::WarpCall call{kspec_host::WARP_ACTIVE, 0,       0,            0, nullptr,
                            &result,                 "__activemask", KSPEC_HOST_HERE};
  kspec_host::wait_for_warp(&call);
  return result;
}

static inline unsigned int __ballot_sync(unsigned int mask, int predicate, KSPEC_HOST_SITE) {
  return kspec_host::ballot(mask, predicate, "__ballot_sync", KSPEC_HOST_HERE);
}
static inline int __any_sync(unsigned int mask, int predicate, KSPEC_HOST_SITE) {
  return kspec_host::ballot(mask, predicate, "__any_sync", KSPEC_HOST_HERE) != 0;
}
static inline int __all_sync(unsigned int mask, int predicate, KSPEC_HOST_SITE) {
  return kspec_host::ballot(mask, !predicate, "__all_sync", KSPEC_HOST_HERE) == 0;
}

// The lanes a shuffle reads. `width` splits the warp into parts that exchange among themselves.
namespace kspec_host {
static inline int source_of_index(int index, int width) {
  return ((int)lane_id() & ~(width - 1)) + (index & (width - 1));
}
static inline int source_above(unsigned delta, int width) {
  int lane = lane_id(), source = lane - (int)delta;
  return source < (lane & ~(width - 1)) ? lane : source;
}
static inline int source_below(unsigned delta, int width) {
  int lane = lane_id(), source = lane + (int)delta;
  return (lane & (width - 1)) + (int)delta < width ? source : lane;
}
static inline int source_of_mask(int bits, int width) {
  int lane = lane_id(), source = lane ^ bits;
  return source >= (lane & ~(width - 1)) + width ? lane : source;
}

template <class T> static inline unsigned match_any(unsigned mask, T value, Site site) {
  T all[WARP_SIZE];
  unsigned lanes = gather(mask, value, all, "__match_any_sync", site), equal = 0;
  for (unsigned left = lanes; left; left &= left - 1) {
    int lane = __builtin_ctz(left);
    if (!__builtin_memcmp(&all[lane], &value, sizeof(T))) equal |= 1u << lane;
  }
  return equal;
}
}  // namespace kspec_host

#define KSPEC_SHUFFLE(NAME, T, CHOICE, SOURCE)                                                \
  static inline T NAME(unsigned int mask, T value, CHOICE choice, int width = 32,             \
                       KSPEC_HOST_SITE) {                                                     \
    return kspec_host::shuffle(mask, value, kspec_host::SOURCE(choice, width), #NAME,         \
                               KSPEC_HOST_HERE);                                              \
  }
#define KSPEC_SHUFFLES(T)                                     \
  KSPEC_SHUFFLE(__shfl_sync, T, int, source_of_index)         \
  KSPEC_SHUFFLE(__shfl_up_sync, T, unsigned int, source_above) \
  KSPEC_SHUFFLE(__shfl_down_sync, T, unsigned int, source_below) \
  KSPEC_SHUFFLE(__shfl_xor_sync, T, int, source_of_mask)
#define KSPEC_MATCH(T)                                                                        \
  static inline unsigned int __match_any_sync(unsigned int mask, T value, KSPEC_HOST_SITE) {  \
    return kspec_host::match_any(mask, value, KSPEC_HOST_HERE);                               \
  }                                                                                           \
  static inline unsigned int __match_all_sync(unsigned int mask, T value, int* predicate,     \
                                              KSPEC_HOST_SITE) {                              \
    *predicate = kspec_host::match_any(mask, value, KSPEC_HOST_HERE) == mask;                 \
    return *predicate ? mask : 0;                                                             \
  }
#define KSPEC_EXCHANGED(T) KSPEC_SHUFFLES(T) KSPEC_MATCH(T)
KSPEC_EXCHANGED(int)
KSPEC_EXCHANGED(unsigned int)
KSPEC_EXCHANGED(long)
KSPEC_EXCHANGED(unsigned long)
KSPEC_EXCHANGED(long long)
KSPEC_EXCHANGED(unsigned long long)
KSPEC_EXCHANGED(float)
KSPEC_EXCHANGED(double)
#undef KSPEC_EXCHANGED
#undef KSPEC_MATCH
// KSPEC_SHUFFLES stays: the 16-bit floats use it.

#define KSPEC_WARP_REDUCE(NAME, T, EXPRESSION)                                               \
  static inline T NAME(unsigned int mask, T value, KSPEC_HOST_SITE) {                        \
    return kspec_host::warp_reduce(                                                          \
        mask, value, [](T a, T b) -> T { return EXPRESSION; }, #NAME, KSPEC_HOST_HERE);      \
  }
KSPEC_WARP_REDUCE(__reduce_add_sync, unsigned int, a + b)
KSPEC_WARP_REDUCE(__reduce_add_sync, int, a + b)
KSPEC_WARP_REDUCE(__reduce_min_sync, unsigned int, b < a ? b : a)
KSPEC_WARP_REDUCE(__reduce_min_sync, int, b < a ? b : a)
KSPEC_WARP_REDUCE(__reduce_max_sync, unsigned int, b > a ? b : a)
KSPEC_WARP_REDUCE(__reduce_max_sync, int, b > a ? b : a)
KSPEC_WARP_REDUCE(__reduce_and_sync, unsigned int, a & b)
KSPEC_WARP_REDUCE(__reduce_or_sync, unsigned int, a | b)
KSPEC_WARP_REDUCE(__reduce_xor_sync, unsigned int, a ^ b)
#undef KSPEC_WARP_REDUCE
