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

template <class T>
static inline T __shfl_sync(unsigned int mask, T value, int source, int width = 32,
                            KSPEC_HOST_SITE) {
  int lane = kspec_host::lane_id(), first = lane & ~(width - 1);
  return kspec_host::shuffle(mask, value, first + (source & (width - 1)), "__shfl_sync",
                             KSPEC_HOST_HERE);
}
template <class T>
static inline T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32,
                               KSPEC_HOST_SITE) {
  int lane = kspec_host::lane_id(), source = lane - (int)delta, first = lane & ~(width - 1);
  return kspec_host::shuffle(mask, value, source < first ? lane : source, "__shfl_up_sync",
                             KSPEC_HOST_HERE);
}
template <class T>
static inline T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32,
                                 KSPEC_HOST_SITE) {
  int lane = kspec_host::lane_id(), source = lane + (int)delta;
  bool inside = (lane & (width - 1)) + (int)delta < width;
  return kspec_host::shuffle(mask, value, inside ? source : lane, "__shfl_down_sync",
                             KSPEC_HOST_HERE);
}
template <class T>
static inline T __shfl_xor_sync(unsigned int mask, T value, int lanes, int width = 32,
                                KSPEC_HOST_SITE) {
  int lane = kspec_host::lane_id(), source = lane ^ lanes, end = (lane & ~(width - 1)) + width;
  return kspec_host::shuffle(mask, value, source >= end ? lane : source, "__shfl_xor_sync",
                             KSPEC_HOST_HERE);
}

template <class T>
static inline unsigned int __match_any_sync(unsigned int mask, T value, KSPEC_HOST_SITE) {
  T all[32];
  unsigned lanes = kspec_host::gather(mask, value, all, "__match_any_sync", KSPEC_HOST_HERE);
  unsigned result = 0;
  for (int lane = 0; lane < 32; lane++)
    if ((lanes >> lane & 1) && !__builtin_memcmp(&all[lane], &value, sizeof(T)))
      result |= 1u << lane;
  return result;
}
template <class T>
static inline unsigned int __match_all_sync(unsigned int mask, T value, int* predicate,
                                            KSPEC_HOST_SITE) {
  unsigned equal = __match_any_sync(mask, value, kspec_file, kspec_line);
  *predicate = equal == mask;
  return *predicate ? mask : 0;
}

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
