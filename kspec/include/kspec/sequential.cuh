// Algorithms that one thread does by itself, with the names and results of Thrust's. Iterators are
// pointers, an Iterator of an array of any stride, or numbers that are nowhere in memory.
#pragma once

namespace kspec {

template <class T> struct RemovePointer {};
template <class T> struct RemovePointer<T*> { typedef T type; };

template <class T> struct Iterator {
  T* data;
  ptrdiff_t stride;  // in bytes

  __device__ inline T& operator*() const { return *data; }
  __device__ inline T& operator[](ptrdiff_t k) const { return *(*this + k); }
  __device__ inline Iterator operator+(ptrdiff_t k) const {
    return Iterator{reinterpret_cast<T*>(reinterpret_cast<char*>(data) + k * stride), stride};
  }
  __device__ inline Iterator operator-(ptrdiff_t k) const { return *this + (-k); }
  __device__ inline ptrdiff_t operator-(const Iterator& other) const {
    const ptrdiff_t bytes =
        reinterpret_cast<char*>(data) - reinterpret_cast<char*>(other.data);
    return stride ? bytes / stride : 0;
  }
};
template <class T> __device__ inline Iterator<T> operator+(ptrdiff_t k, const Iterator<T>& one) {
  return one + k;
}
// The numbers that follow one.
template <class T> struct Counting {
  T value;

  __device__ inline T operator*() const { return value; }
  __device__ inline T operator[](ptrdiff_t k) const { return value + T(k); }
  __device__ inline Counting operator+(ptrdiff_t k) const { return Counting{value + T(k)}; }
  __device__ inline Counting operator-(ptrdiff_t k) const { return Counting{value - T(k)}; }
  __device__ inline ptrdiff_t operator-(const Counting& other) const {
    return (ptrdiff_t)value - (ptrdiff_t)other.value;
  }
};
template <class T> __device__ inline Counting<T> operator+(ptrdiff_t k, const Counting<T>& one) {
  return one + k;
}
// The same number again and again.
template <class T> struct Constant {
  T value;
  ptrdiff_t place;

  __device__ inline T operator*() const { return value; }
  __device__ inline T operator[](ptrdiff_t) const { return value; }
  __device__ inline Constant operator+(ptrdiff_t k) const { return Constant{value, place + k}; }
  __device__ inline Constant operator-(ptrdiff_t k) const { return Constant{value, place - k}; }
  __device__ inline ptrdiff_t operator-(const Constant& other) const {
    return place - other.place;
  }
};
template <class T> __device__ inline Constant<T> operator+(ptrdiff_t k, const Constant<T>& one) {
  return one + k;
}
template <class T> __device__ inline Counting<T> make_counting(T value) {
  return Counting<T>{value};
}
template <class T> __device__ inline Constant<T> make_constant(T value, ptrdiff_t place) {
  return Constant<T>{value, place};
}
template <class Array> __device__ inline auto begin_of(const Array& array) {
  typedef decltype(array.data) Pointer;
  typedef Iterator<typename RemovePointer<Pointer>::type> Result;
  return Result{array.data, (ptrdiff_t)array.strides[0]};
}
template <class Array> __device__ inline auto end_of(const Array& array) {
  return begin_of(array) + (ptrdiff_t)array.shape[0];
}

namespace seq {

template <class T> __device__ inline void exchange(T& left, T& right) {
  T kept = left;
  left = right;
  right = kept;
}

template <class I, class O> __device__ inline O copy(I first, I last, O out) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 0; k < n; ++k) out[k] = first[k];
  return out + n;
}
template <class I, class T> __device__ inline void fill(I first, I last, T value) {
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) first[k] = value;
}
template <class I, class T> __device__ inline void sequence(I first, I last, T start, T step) {
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) first[k] = start + step * T(k);
}
template <class I, class T> __device__ inline long long count(I first, I last, T value) {
  long long found = 0;
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) found += first[k] == value;
  return found;
}
template <class I, class T> __device__ inline I find(I first, I last, T value) {
  const ptrdiff_t n = last - first;
  ptrdiff_t k = 0;
  while (k < n && !(first[k] == value)) ++k;
  return first + k;
}
template <class I, class J> __device__ inline long long same(I first, I last, J other) {
  const ptrdiff_t n = last - first;
  ptrdiff_t k = 0;
  while (k < n && first[k] == other[k]) ++k;
  return k;
}
template <class I, class J> __device__ inline bool equal(I first, I last, J other) {
  return same(first, last, other) == last - first;
}
template <class I, class O> __device__ inline O adjacent_difference(I first, I last, O out) {
  const ptrdiff_t n = last - first;
  if (n == 0) return out;
  auto before = first[0];
  out[0] = before;
  for (ptrdiff_t k = 1; k < n; ++k) {
    auto now = first[k];
    out[k] = now - before;
    before = now;
  }
  return out + n;
}
template <class I, class T> __device__ inline T reduce(I first, I last, T total) {
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) total = total + first[k];
  return total;
}
template <class I, class J, class T>
__device__ inline T inner_product(I first, I last, J other, T total) {
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) total = total + first[k] * other[k];
  return total;
}
template <class I, class O> __device__ inline O inclusive_scan(I first, I last, O out) {
  const ptrdiff_t n = last - first;
  if (n == 0) return out;
  auto total = first[0];
  out[0] = total;
  for (ptrdiff_t k = 1; k < n; ++k) {
    total = total + first[k];
    out[k] = total;
  }
  return out + n;
}
template <class I, class O, class T>
__device__ inline O exclusive_scan(I first, I last, O out, T total) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 0; k < n; ++k) {
    T next = total + first[k];
    out[k] = total;
    total = next;
  }
  return out + n;
}
template <class K, class I, class O>
__device__ inline O inclusive_scan_by_key(K first, K last, I values, O out) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 0; k < n; ++k)
    out[k] = k && first[k] == first[k - 1] ? out[k - 1] + values[k] : values[k];
  return out + n;
}
template <class K, class I, class O, class T>
__device__ inline O exclusive_scan_by_key(K first, K last, I values, O out, T initial) {
  const ptrdiff_t n = last - first;
  T total = initial;
  for (ptrdiff_t k = 0; k < n; ++k) {
    if (k && !(first[k] == first[k - 1])) total = initial;
    T next = total + values[k];
    out[k] = total;
    total = next;
  }
  return out + n;
}
template <class K, class I, class L, class O>
__device__ inline long long reduce_by_key(K first, K last, I values, L keys, O out) {
  long long found = 0;
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) {
    if (k && first[k] == first[k - 1]) {
      out[found - 1] = out[found - 1] + values[k];
    } else {
      keys[found] = first[k];
      out[found++] = values[k];
    }
  }
  return found;
}

template <class I, class T> __device__ inline I lower_bound(I first, I last, T value) {
  ptrdiff_t low = 0, high = last - first;
  while (low < high) {
    const ptrdiff_t middle = low + (high - low) / 2;
    if (first[middle] < value) low = middle + 1;
    else high = middle;
  }
  return first + low;
}
template <class I, class T> __device__ inline I upper_bound(I first, I last, T value) {
  ptrdiff_t low = 0, high = last - first;
  while (low < high) {
    const ptrdiff_t middle = low + (high - low) / 2;
    if (value < first[middle]) high = middle;
    else low = middle + 1;
  }
  return first + low;
}
template <class I, class T> __device__ inline bool binary_search(I first, I last, T value) {
  I found = lower_bound(first, last, value);
  return last - found > 0 && !(value < *found);
}
template <class I> __device__ inline I is_sorted_until(I first, I last) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 1; k < n; ++k)
    if (first[k] < first[k - 1]) return first + k;
  return last;
}
template <class I> __device__ inline bool is_sorted(I first, I last) {
  return last - is_sorted_until(first, last) == 0;
}

template <class I, class T> __device__ inline I remove(I first, I last, T value) {
  ptrdiff_t kept = 0;
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k)
    if (!(first[k] == value)) first[kept++] = first[k];
  return first + kept;
}
template <class I, class O, class T>
__device__ inline O remove_copy(I first, I last, O out, T value) {
  ptrdiff_t kept = 0;
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k)
    if (!(first[k] == value)) out[kept++] = first[k];
  return out + kept;
}
template <class I, class T> __device__ inline void replace(I first, I last, T old, T value) {
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k)
    if (first[k] == old) first[k] = value;
}
template <class I, class O, class T>
__device__ inline O replace_copy(I first, I last, O out, T old, T value) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 0; k < n; ++k) out[k] = first[k] == old ? value : first[k];
  return out + n;
}
template <class I> __device__ inline void reverse(I first, I last) {
  for (ptrdiff_t k = 0, n = last - first; k < n / 2; ++k) exchange(first[k], first[n - 1 - k]);
}
template <class I, class O> __device__ inline O reverse_copy(I first, I last, O out) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 0; k < n; ++k) out[k] = first[n - 1 - k];
  return out + n;
}
template <class I, class J> __device__ inline J swap_ranges(I first, I last, J other) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 0; k < n; ++k) exchange(first[k], other[k]);
  return other + n;
}
template <class M, class I, class O> __device__ inline O gather(M first, M last, I from, O out) {
  const ptrdiff_t n = last - first;
  for (ptrdiff_t k = 0; k < n; ++k) out[k] = from[first[k]];
  return out + n;
}
template <class I, class M, class O> __device__ inline void scatter(I first, I last, M map, O out) {
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) out[map[k]] = first[k];
}
template <class I, class O> __device__ inline O unique_copy(I first, I last, O out) {
  ptrdiff_t kept = 0;
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k)
    if (!kept || !(first[k] == out[kept - 1])) out[kept++] = first[k];
  return out + kept;
}
template <class I> __device__ inline I unique(I first, I last) {
  return unique_copy(first, last, first);
}
template <class K, class I> __device__ inline long long unique_by_key(K first, K last, I values) {
  long long kept = 0;
  for (ptrdiff_t k = 0, n = last - first; k < n; ++k) {
    if (kept && first[k] == first[kept - 1]) continue;
    first[kept] = first[k];
    values[kept++] = values[k];
  }
  return kept;
}

// What is taken with the keys of a set, if anything.
struct Alone {
  __device__ inline void take_left(ptrdiff_t, ptrdiff_t) const {}
  __device__ inline void take_right(ptrdiff_t, ptrdiff_t) const {}
};
template <class I, class O> struct OfLeft {
  I values;
  O out;
  __device__ inline void take_left(ptrdiff_t k, ptrdiff_t i) const { out[k] = values[i]; }
  __device__ inline void take_right(ptrdiff_t, ptrdiff_t) const {}
};
template <class I, class J, class O> struct OfBoth {
  I values;
  J others;
  O out;
  __device__ inline void take_left(ptrdiff_t k, ptrdiff_t i) const { out[k] = values[i]; }
  __device__ inline void take_right(ptrdiff_t k, ptrdiff_t j) const { out[k] = others[j]; }
};

// Sets are sorted; what occurs more than once counts as often.
template <int LEFT, int RIGHT, int BOTH, class I, class J, class O, class With = Alone>
__device__ inline O combine(I first, I last, J other, J end, O out, With with = With()) {
  const ptrdiff_t n = last - first, m = end - other;
  ptrdiff_t i = 0, j = 0, k = 0;
  while (i < n || j < m) {
    if (j == m || (i < n && first[i] < other[j])) {
      if (LEFT) {
        out[k] = first[i];
        with.take_left(k++, i);
      }
      ++i;
    } else if (i == n || other[j] < first[i]) {
      if (RIGHT) {
        out[k] = other[j];
        with.take_right(k++, j);
      }
      ++j;
    } else {
      if (BOTH) {
        out[k] = first[i];
        with.take_left(k++, i);
      }
      ++i;
      ++j;
    }
  }
  return out + k;
}
template <class I, class J, class O>
__device__ inline O set_union(I first, I last, J other, J end, O out) {
  return combine<1, 1, 1>(first, last, other, end, out);
}
template <class I, class J, class O>
__device__ inline O set_intersection(I first, I last, J other, J end, O out) {
  return combine<0, 0, 1>(first, last, other, end, out);
}
template <class I, class J, class O>
__device__ inline O set_difference(I first, I last, J other, J end, O out) {
  return combine<1, 0, 0>(first, last, other, end, out);
}
template <class I, class J, class O>
__device__ inline O set_symmetric_difference(I first, I last, J other, J end, O out) {
  return combine<1, 1, 0>(first, last, other, end, out);
}
// Those of keys and values return how many there are.
template <class I, class J, class V, class W, class O, class P>
__device__ inline long long set_union_by_key(I first, I last, J other, J end, V values, W others,
                                             O keys, P out) {
  return combine<1, 1, 1>(first, last, other, end, keys, OfBoth<V, W, P>{values, others, out}) -
         keys;
}
template <class I, class J, class V, class O, class P>
__device__ inline long long set_intersection_by_key(I first, I last, J other, J end, V values,
                                                    O keys, P out) {
  return combine<0, 0, 1>(first, last, other, end, keys, OfLeft<V, P>{values, out}) - keys;
}
template <class I, class J, class V, class W, class O, class P>
__device__ inline long long set_difference_by_key(I first, I last, J other, J end, V values, W,
                                                  O keys, P out) {
  return combine<1, 0, 0>(first, last, other, end, keys, OfLeft<V, P>{values, out}) - keys;
}
template <class I, class J, class V, class W, class O, class P>
__device__ inline long long set_symmetric_difference_by_key(I first, I last, J other, J end,
                                                            V values, W others, O keys, P out) {
  return combine<1, 1, 0>(first, last, other, end, keys, OfBoth<V, W, P>{values, others, out}) -
         keys;
}

// What moves with the keys, if anything.
struct Nothing {
  __device__ inline void exchange(ptrdiff_t, ptrdiff_t) const {}
};
template <class I> struct Along {
  I values;
  __device__ inline void exchange(ptrdiff_t i, ptrdiff_t j) const {
    seq::exchange(values[i], values[j]);
  }
};
// A heap: no memory, no recursion, never slower than n log n.
template <class I, class With> __device__ inline void heap_sort(I first, ptrdiff_t n, With with) {
  for (ptrdiff_t start = n / 2, end = n; end > 1;) {
    if (start > 0) {
      --start;
    } else {
      --end;
      exchange(first[0], first[end]);
      with.exchange(0, end);
    }
    for (ptrdiff_t root = start, child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && first[child] < first[child + 1]) ++child;
      if (!(first[root] < first[child])) break;
      exchange(first[root], first[child]);
      with.exchange(root, child);
    }
  }
}
// Insertion: keeps the order of what is equal; for the few elements that one thread sorts.
template <class I, class With> __device__ inline void insert_sort(I first, ptrdiff_t n, With with) {
  for (ptrdiff_t k = 1; k < n; ++k)
    for (ptrdiff_t j = k; j > 0 && first[j] < first[j - 1]; --j) {
      exchange(first[j], first[j - 1]);
      with.exchange(j, j - 1);
    }
}
template <class I> __device__ inline void sort(I first, I last) {
  heap_sort(first, last - first, Nothing());
}
template <class I> __device__ inline void stable_sort(I first, I last) {
  insert_sort(first, last - first, Nothing());
}
template <class K, class I> __device__ inline void sort_by_key(K first, K last, I values) {
  heap_sort(first, last - first, Along<I>{values});
}
template <class K, class I> __device__ inline void stable_sort_by_key(K first, K last, I values) {
  insert_sort(first, last - first, Along<I>{values});
}

}  // namespace seq
}  // namespace kspec
