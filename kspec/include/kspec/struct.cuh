// Structured dtypes. kspec prints each as a struct with named members and KSPEC_STRUCT, which
// says what all of them can do; raw bytes, NumPy's V<n>, are a Void<n>. Values come by value: a
// reference to a class's static constant would read memory that the class does not define.
#pragma once

namespace kspec {

// One field, which may be an array.
template <class Field> __device__ inline void set_field(Field& to, const Field& from) { to = from; }
template <class Field, int N>
__device__ inline void set_field(Field (&to)[N], const Field (&from)[N]) {
  for (int k = 0; k < N; ++k) set_field(to[k], from[k]);
}
template <class Field, class Value>
__device__ inline void fill_field(Field& to, Value value) {
  to = static_cast<Field>(value);
}
template <class Field, int N, class Value>
__device__ inline void fill_field(Field (&to)[N], Value value) {
  for (int k = 0; k < N; ++k) fill_field(to[k], value);
}
template <class Field> __device__ inline bool same_field(const Field& left, const Field& right) {
  return left == right;
}
template <class Field, int N>
__device__ inline bool same_field(const Field (&left)[N], const Field (&right)[N]) {
  for (int k = 0; k < N; ++k)
    if (!same_field(left[k], right[k])) return false;
  return true;
}

// All fields, from K on.
template <int K, int COUNT, class Struct>
__device__ inline void set_fields(Struct& to, const Struct& from) {
  if constexpr (K < COUNT) {
    set_field(to.template at<K>(), from.template at<K>());
    set_fields<K + 1, COUNT>(to, from);
  }
}
template <int K, int COUNT, class Struct, class Value>
__device__ inline void fill_fields(Struct& to, Value value) {
  if constexpr (K < COUNT) {
    fill_field(to.template at<K>(), value);
    fill_fields<K + 1, COUNT>(to, value);
  }
}
template <int K, int COUNT, class Struct>
__device__ inline bool same_fields(const Struct& left, const Struct& right) {
  if constexpr (K < COUNT) {
    return same_field(left.template at<K>(), right.template at<K>()) &&
           same_fields<K + 1, COUNT>(left, right);
  } else {
    return true;
  }
}

// Raw bytes: made from anything, truncated or filled up with zeros.
template <int N> class Void {
  unsigned char bytes_[N];

  template <class Value> __device__ inline Void& copy(const Value& value) {
    const unsigned char* from = reinterpret_cast<const unsigned char*>(&value);
    for (int k = 0; k < N; ++k) bytes_[k] = k < (int)sizeof(Value) ? from[k] : 0;
    return *this;
  }

 public:
  Void() = default;
  template <class Value> __device__ inline explicit Void(Value value) { copy(value); }
  template <class Item, int M> __device__ inline explicit Void(const Item (&array)[M]) {
    copy(array);
  }
  template <class Value> __device__ inline Void& operator=(Value value) { return copy(value); }
  template <class Item, int M> __device__ inline Void& operator=(const Item (&array)[M]) {
    return copy(array);
  }
  __device__ inline const unsigned char* bytes() const { return bytes_; }
  __device__ inline bool operator==(const Void& other) const {
    return same_field(bytes_, other.bytes_);
  }
  __device__ inline bool operator!=(const Void& other) const { return !(*this == other); }
};

}  // namespace kspec

// Assignment copies field by field, because what lies between them may be somebody else's: a
// view of some fields of a larger struct has gaps. A scalar sets every field.
#define KSPEC_STRUCT(SELF, COUNT)                                                         \
  SELF() = default;                                                                       \
  SELF(const SELF&) = default;                                                            \
  template <class Value> __device__ inline explicit SELF(Value value) {                   \
    kspec::fill_fields<0, COUNT>(*this, value);                                           \
  }                                                                                       \
  __device__ inline SELF& operator=(const SELF& other) {                                  \
    kspec::set_fields<0, COUNT>(*this, other);                                            \
    return *this;                                                                         \
  }                                                                                       \
  template <class Value> __device__ inline SELF& operator=(Value value) {                 \
    kspec::fill_fields<0, COUNT>(*this, value);                                           \
    return *this;                                                                         \
  }                                                                                       \
  __device__ inline bool operator==(const SELF& other) const {                            \
    return kspec::same_fields<0, COUNT>(*this, other);                                    \
  }                                                                                       \
  __device__ inline bool operator!=(const SELF& other) const { return !(*this == other); }
