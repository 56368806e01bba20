// Ranges of integers: the values that an expression has among many threads. What
// compiler/host/loops/ranges.py writes computes with them.
//
// A range is known only if every value in it is what exact arithmetic gives: no operation has
// wrapped around in its type. Of other values nothing is said.
#pragma once

namespace kspec_host {

template <class T> constexpr bool is_floating = false;
template <> constexpr bool is_floating<float> = true;
template <> constexpr bool is_floating<double> = true;

template <class T> constexpr bool is_integer = false;
#define KSPEC_INTEGER(T) template <> constexpr bool is_integer<T> = true;
KSPEC_INTEGER(bool) KSPEC_INTEGER(char) KSPEC_INTEGER(signed char) KSPEC_INTEGER(unsigned char)
KSPEC_INTEGER(short) KSPEC_INTEGER(unsigned short) KSPEC_INTEGER(int) KSPEC_INTEGER(unsigned)
KSPEC_INTEGER(long) KSPEC_INTEGER(unsigned long)
KSPEC_INTEGER(long long) KSPEC_INTEGER(unsigned long long)
#undef KSPEC_INTEGER

// Whether a type's numbers are all that is behind it: a parameter, or what one points to.
template <class T> constexpr bool is_number = is_integer<T> || is_floating<T>;
template <class T> constexpr bool is_number<const T> = is_number<T>;
template <class T> constexpr bool is_number<T*> = is_number<T>;
template <class T> constexpr bool is_number<T**> = false;
template <class T> constexpr bool is_number<T* const*> = false;

// Whether T has a value; of 64 bits without a sign, those that a sign leaves.
template <class T> constexpr bool can_hold(long long value) {
  if (!is_integer<T>) return false;
  if ((T)-1 > (T)0 && value < 0) return false;
  return sizeof(T) == sizeof(long long) || (long long)(T)value == value;
}

template <class T> struct Range {
  long long low, high;
  bool known;

  bool is_possible() const { return !known || low <= high; }
  // The range where it is one of indices below an extent, else unknown.
  Range within(long long extent) const { return {low, high, known && low >= 0 && high < extent}; }
};

template <class T> using Promoted = decltype(T() + T());
template <class T, class U> using Common = decltype(T() + U());

template <class T> static inline KSPEC_HOST_UNCHECKED Range<T> make_range(long long low,
                                                                         long long high, bool known) {
  return {low, high, known && low <= high && can_hold<T>(low) && can_hold<T>(high)};
}

template <class T> static inline KSPEC_HOST_UNCHECKED Range<T> range_of(T value) {
  if constexpr (is_integer<T>) {
    return make_range<T>((long long)value, (long long)value, (T)-1 < (T)0 || (long long)value >= 0);
  } else {
    return {0, 0, false};
  }
}

template <class T, class U> static inline KSPEC_HOST_UNCHECKED Range<T> range_as(Range<U> range) {
  return make_range<T>(range.low, range.high, range.known);
}

// Whether no conversion to their common type changes two numbers.
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED bool comparable(Range<T> a, Range<U> b) {
  typedef Common<T, U> R;
  return a.known && b.known && can_hold<R>(a.low) && can_hold<R>(a.high) && can_hold<R>(b.low) &&
         can_hold<R>(b.high);
}

// ------------------------------------------------------------------------- arithmetic

template <class T> static inline KSPEC_HOST_UNCHECKED Range<Promoted<T>> operator+(Range<T> a) {
  return range_as<Promoted<T>>(a);
}

template <class T> static inline KSPEC_HOST_UNCHECKED Range<Promoted<T>> operator-(Range<T> a) {
  bool fits = a.low > -(1ll << 62) && a.high < 1ll << 62;
  return make_range<Promoted<T>>(fits ? -a.high : 0, fits ? -a.low : 0, a.known && fits);
}

template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> operator+(Range<T> a, Range<U> b) {
  long long low, high;
  bool wraps = __builtin_add_overflow(a.low, b.low, &low) | __builtin_add_overflow(a.high, b.high, &high);
  return make_range<Common<T, U>>(low, high, a.known && b.known && !wraps);
}

template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> operator-(Range<T> a, Range<U> b) {
  long long low, high;
  bool wraps = __builtin_sub_overflow(a.low, b.high, &low) | __builtin_sub_overflow(a.high, b.low, &high);
  return make_range<Common<T, U>>(low, high, a.known && b.known && !wraps);
}

// The least and the greatest of four products.
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> operator*(Range<T> a, Range<U> b) {
  long long p, q, r, s;
  bool wraps = __builtin_mul_overflow(a.low, b.low, &p) | __builtin_mul_overflow(a.low, b.high, &q) |
               __builtin_mul_overflow(a.high, b.low, &r) | __builtin_mul_overflow(a.high, b.high, &s);
  long long low = p < q ? p : q, high = p < q ? q : p;
  low = r < low ? r : low, high = r > high ? r : high;
  low = s < low ? s : low, high = s > high ? s : high;
  return make_range<Common<T, U>>(low, high, a.known && b.known && !wraps);
}

// Only of numbers that no conversion changes, and by positive ones.
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> operator/(Range<T> a, Range<U> b) {
  typedef Common<T, U> R;
  if (!a.known || !b.known || a.low < 0 || b.low < 1) return {0, 0, false};
  return make_range<R>(a.low / b.high, a.high / b.low, can_hold<R>(a.high) && can_hold<R>(b.high));
}

template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> operator%(Range<T> a, Range<U> b) {
  typedef Common<T, U> R;
  if (!a.known || !b.known || a.low < 0 || b.low < 1) return {0, 0, false};
  bool fits = can_hold<R>(a.high) && can_hold<R>(b.high);
  if (a.high < b.low) return make_range<R>(a.low, a.high, fits);
  return make_range<R>(0, a.high < b.high - 1 ? a.high : b.high - 1, fits);
}

template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Promoted<T>> operator<<(Range<T> a, Range<U> b) {
  bool fits = a.known && b.known && a.low >= 0 && b.low >= 0 && b.high < 31 && a.high < 1ll << 31;
  if (!fits) return {0, 0, false};
  return make_range<Promoted<T>>(a.low << b.low, a.high << b.high, true);
}

template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Promoted<T>> operator>>(Range<T> a, Range<U> b) {
  bool fits = a.known && b.known && a.low >= 0 && b.low >= 0 && b.high < 31;
  if (!fits) return {0, 0, false};
  return make_range<Promoted<T>>(a.low >> b.high, a.high >> b.low, true);
}

template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> operator&(Range<T> a, Range<U> b) {
  if (!a.known || !b.known || a.low < 0 || b.low < 0) return {0, 0, false};
  return make_range<Common<T, U>>(0, a.high < b.high ? a.high : b.high, true);
}

// Of numbers that no conversion changes.
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> range_min(Range<T> a, Range<U> b) {
  return make_range<Common<T, U>>(a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high,
                                  comparable(a, b));
}
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<Common<T, U>> range_max(Range<T> a, Range<U> b) {
  return make_range<Common<T, U>>(a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high,
                                  comparable(a, b));
}

// The place of an element in an array of arrays.
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<long long> nested(Range<T> outer, long long extent,
                                                          Range<U> inner) {
  return range_as<long long>(outer) * range_of(extent) + range_as<long long>(inner);
}

// ------------------------------------------------------------------------- conditions

// A condition of all threads: what is neither is true in some and false in others, or not known.
struct Certainty {
  bool always, never;
};

template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Certainty operator<(Range<T> a, Range<U> b) {
  bool is = comparable(a, b);
  return {is && a.high < b.low, is && a.low >= b.high};
}
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Certainty operator<=(Range<T> a, Range<U> b) {
  bool is = comparable(a, b);
  return {is && a.high <= b.low, is && a.low > b.high};
}
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Certainty operator==(Range<T> a, Range<U> b) {
  bool is = comparable(a, b), apart = a.high < b.low || b.high < a.low;
  return {is && a.low == a.high && b.low == b.high && a.low == b.low, is && apart};
}
static inline KSPEC_HOST_UNCHECKED Certainty operator!(Certainty a) { return {a.never, a.always}; }
static inline KSPEC_HOST_UNCHECKED Certainty operator&&(Certainty a, Certainty b) {
  return {a.always && b.always, a.never || b.never};
}
static inline KSPEC_HOST_UNCHECKED Certainty operator||(Certainty a, Certainty b) {
  return {a.always || b.always, a.never && b.never};
}
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Certainty operator>(Range<T> a, Range<U> b) { return b < a; }
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Certainty operator>=(Range<T> a, Range<U> b) { return b <= a; }
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Certainty operator!=(Range<T> a, Range<U> b) { return !(a == b); }

// A range where a condition on it holds. It may be empty.
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<T> below(Range<T> a, Range<U> bound, bool equal) {
  if (!comparable(a, bound)) return a;
  long long high = bound.high - (equal ? 0 : 1);
  return {a.low, a.high < high ? a.high : high, true};
}
template <class T, class U>
static inline KSPEC_HOST_UNCHECKED Range<T> above(Range<T> a, Range<U> bound, bool equal) {
  if (!comparable(a, bound)) return a;
  long long low = bound.low + (equal ? 0 : 1);
  return {a.low > low ? a.low : low, a.high, true};
}

}  // namespace kspec_host
