// Cooperative groups for the host device: thread blocks, tiles of up to 32 threads, coalesced
// groups, and the grid of a cooperative launch. Clusters do not exist here.
#pragma once

namespace cooperative_groups {

class thread_block {
 public:
  static void sync(KSPEC_HOST_SITE) {
    kspec_host::wait_at_barrier(kspec_host::BARRIER_SYNC, 0, KSPEC_HOST_HERE);
  }
  static unsigned int thread_rank() { return kspec_host::thread_rank(); }
  static unsigned int size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned int num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};

static inline thread_block this_thread_block() { return {}; }

// The whole grid. Its threads can wait for each other in a cooperative launch only.
class grid_group {
 public:
  static void sync(KSPEC_HOST_SITE) {
    kspec_host::wait_at_barrier(kspec_host::BARRIER_GRID, 0, KSPEC_HOST_HERE);
  }
  static bool is_valid() { return kspec_context.block->cooperative; }
  static unsigned long long num_blocks() {
    return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
  }
  static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  }
  static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
  static unsigned long long size() { return num_blocks() * thread_block::size(); }
  static unsigned long long num_threads() { return size(); }
  static dim3 group_dim() { return gridDim; }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 block_index() { return dim3(blockIdx); }
};

static inline grid_group this_grid() { return {}; }

template <class T = void> static inline thread_block this_cluster() {
  static_assert(kspec_host::Never<T>::value, "a cluster cannot run on the host device; "
                "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative");
  return {};
}

namespace details {

// Some lanes of a warp; everything warp-sized is one of these.
class lanes_group {
 public:
  unsigned int thread_rank() const { return rank_; }
  unsigned int size() const { return size_; }
  unsigned int num_threads() const { return size_; }
  void sync(KSPEC_HOST_SITE) const { __syncwarp(mask_, kspec_file, kspec_line); }

  template <class T> T shfl(T value, int rank, KSPEC_HOST_SITE) const {
    return exchange(value, (unsigned)rank % size_, "shfl", KSPEC_HOST_HERE);
  }
  template <class T> T shfl_down(T value, unsigned int delta, KSPEC_HOST_SITE) const {
    unsigned int from = rank_ + delta < size_ ? rank_ + delta : rank_;
    return exchange(value, from, "shfl_down", KSPEC_HOST_HERE);
  }
  template <class T> T shfl_up(T value, unsigned int delta, KSPEC_HOST_SITE) const {
    return exchange(value, rank_ >= delta ? rank_ - delta : rank_, "shfl_up", KSPEC_HOST_HERE);
  }
  template <class T> T shfl_xor(T value, unsigned int bits, KSPEC_HOST_SITE) const {
    unsigned int from = (rank_ ^ bits) < size_ ? rank_ ^ bits : rank_;
    return exchange(value, from, "shfl_xor", KSPEC_HOST_HERE);
  }
  unsigned int ballot(int predicate, KSPEC_HOST_SITE) const {
    return by_rank(kspec_host::ballot(mask_, predicate, "ballot", KSPEC_HOST_HERE));
  }
  int any(int predicate, KSPEC_HOST_SITE) const {
    return kspec_host::ballot(mask_, predicate, "any", KSPEC_HOST_HERE) != 0;
  }
  int all(int predicate, KSPEC_HOST_SITE) const {
    return kspec_host::ballot(mask_, !predicate, "all", KSPEC_HOST_HERE) == 0;
  }
  template <class T> unsigned int match_any(T value, KSPEC_HOST_SITE) const {
    return by_rank(kspec_host::match_any(mask_, value, KSPEC_HOST_HERE));
  }
  template <class T> unsigned int match_all(T value, int& predicate, KSPEC_HOST_SITE) const {
    predicate = kspec_host::match_any(mask_, value, KSPEC_HOST_HERE) == mask_;
    return predicate ? by_rank(mask_) : 0;
  }
  unsigned int kspec_mask() const { return mask_; }

 protected:
  unsigned int mask_, rank_, size_;

 private:
  // The lane of a rank, and a set of lanes as a set of ranks.
  int lane_of(unsigned int rank) const {
    unsigned int lanes = mask_;
    while (rank--) lanes &= lanes - 1;
    return __builtin_ctz(lanes);
  }
  unsigned int by_rank(unsigned int lanes) const {
    unsigned int ranks = 0, rank = 0;
    for (unsigned int left = mask_; left; left &= left - 1, rank++)
      if (lanes >> __builtin_ctz(left) & 1) ranks |= 1u << rank;
    return ranks;
  }
  template <class T>
  T exchange(T value, unsigned int rank, const char* name, kspec_host::Site site) const {
    return kspec_host::shuffle(mask_, value, lane_of(rank), name, site);
  }
};

}  // namespace details

template <unsigned int N, class Parent = void> class thread_block_tile : public details::lanes_group {
 public:
  static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0,
                "the host device has tiles of 1, 2, 4, 8, 16 and 32 threads");
  thread_block_tile() {
    unsigned int lane = kspec_host::lane_id(), first = lane & ~(N - 1);
    mask_ = (N == 32 ? 0xffffffffu : (1u << (N % 32)) - 1) << first;
    rank_ = lane - first;
    size_ = N;
  }
  static constexpr unsigned int size() { return N; }
  static constexpr unsigned int num_threads() { return N; }
  static unsigned int meta_group_rank() { return kspec_host::thread_rank() / N; }
  static unsigned int meta_group_size() { return (thread_block::size() + N - 1) / N; }
};

template <unsigned int N, class Parent>
static inline thread_block_tile<N, Parent> tiled_partition(const Parent&) {
  return {};
}

// Lanes that came together, or a part of a group: one of several.
class coalesced_group : public details::lanes_group {
 public:
  explicit coalesced_group(unsigned int kspec_mask, unsigned int part = 0, unsigned int parts = 1)
      : part_(part), parts_(parts) {
    mask_ = kspec_mask;
    rank_ = __builtin_popcount(mask_ & ((1u << kspec_host::lane_id()) - 1));
    size_ = __builtin_popcount(mask_);
  }
  unsigned int meta_group_rank() const { return part_; }
  unsigned int meta_group_size() const { return parts_; }

 private:
  unsigned int part_, parts_;
};

static inline coalesced_group coalesced_threads(KSPEC_HOST_SITE) {
  return coalesced_group(__activemask(kspec_file, kspec_line));
}

// The parts of a group whose threads have one label, in the order of their first threads.
template <class Group, class T>
static inline coalesced_group labeled_partition(const Group& group, T label, KSPEC_HOST_SITE) {
  T labels[kspec_host::WARP_SIZE];
  unsigned int lanes = kspec_host::gather(group.kspec_mask(), label, labels, "labeled_partition",
                                          KSPEC_HOST_HERE);
  unsigned int mine = 0, part = 0, parts = 0;
  while (lanes) {
    unsigned int equal = 0, first = __builtin_ctz(lanes);
    for (unsigned int left = lanes; left; left &= left - 1)
      if (labels[__builtin_ctz(left)] == labels[first]) equal |= left & -left;
    if (equal >> kspec_host::lane_id() & 1) mine = equal, part = parts;
    lanes &= ~equal, parts++;
  }
  return coalesced_group(mine, part, parts);
}
// Those of a predicate; the second part has the threads for which it holds.
template <class Group>
static inline coalesced_group binary_partition(const Group& group, bool predicate,
                                               KSPEC_HOST_SITE) {
  unsigned int all = group.kspec_mask();
  unsigned int holds = kspec_host::ballot(all, predicate, "binary_partition", KSPEC_HOST_HERE);
  if (holds == all || !holds) return coalesced_group(all);
  return coalesced_group(predicate ? holds : all & ~holds, predicate, 2);
}
template <class Group>
static inline coalesced_group labeled_partition(const Group& group, bool label, KSPEC_HOST_SITE) {
  return binary_partition(group, label, kspec_file, kspec_line);
}

template <class Group> static inline void sync(const Group& group, KSPEC_HOST_SITE) {
  group.sync(kspec_file, kspec_line);
}

}  // namespace cooperative_groups
