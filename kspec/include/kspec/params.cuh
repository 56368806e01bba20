// What a caller declares of a kernel's parameters, checked where the kernel is defined.
//
//   static_assert(kspec::parameter_count<decltype(&k<float>)>() == 2, "...");
//   static_assert(kspec::is_number<kspec::ParameterAt<decltype(&k<float>), 0>, 1>('f', 4), "...");
//
// Qualifiers do not matter, nor which of several types of one size and kind it is. Names are as in
// kspec/field.cuh.
#pragma once

#include "kspec/field.cuh"

namespace kspec {

struct Anything_ {};  // such as a parameter that the kernel lacks: the count tells that
struct Mismatch_ {};

template <int Index_, class... Types_>
struct TypeAt_ {
  typedef Anything_ type_;
};
template <class First_, class... Rest_>
struct TypeAt_<0, First_, Rest_...> {
  typedef First_ type_;
};
template <int Index_, class First_, class... Rest_>
struct TypeAt_<Index_, First_, Rest_...> : TypeAt_<Index_ - 1, Rest_...> {};

template <class Kernel_>
struct Parameters_;
template <class... Types_>
struct Parameters_<void (*)(Types_...)> {
  enum { count_ = sizeof...(Types_) };
  template <int Index_>
  struct At_ : TypeAt_<Index_, Types_...> {};
};

template <class Kernel_>
constexpr int parameter_count() {
  return Parameters_<Kernel_>::count_;
}
template <class Kernel_, int Index_>
using ParameterAt = typename Parameters_<Kernel_>::template At_<Index_>::type_;

template <class T_>
struct Unqualified_ {
  typedef T_ type_;
};
template <class T_>
struct Unqualified_<const T_> : Unqualified_<T_> {};
template <class T_>
struct Unqualified_<volatile T_> : Unqualified_<T_> {};
template <class T_>
struct Unqualified_<const volatile T_> : Unqualified_<T_> {};

// What is behind so many pointers. What void points to may be anything.
template <class T_, int Pointers_>
struct Behind_ {
  typedef Mismatch_ type_;
};
template <class T_>
struct Behind_<T_, 0> {
  typedef T_ type_;
};
template <class T_, int Pointers_>
struct Behind_<T_*, Pointers_> : Behind_<typename Unqualified_<T_>::type_, Pointers_ - 1> {};
template <class T_>
struct Behind_<T_*, 0> {
  typedef T_* type_;
};
template <int Pointers_>
struct Behind_<void, Pointers_> {
  typedef Anything_ type_;
};
template <>
struct Behind_<void, 0> {
  typedef Anything_ type_;
};
template <int Pointers_>
struct Behind_<Anything_, Pointers_> {
  typedef Anything_ type_;
};
template <>
struct Behind_<Anything_, 0> {
  typedef Anything_ type_;
};
template <class T_, int Pointers_>
using Declared_ = typename Behind_<typename Unqualified_<T_>::type_, Pointers_>::type_;

// Classes and enums of the right size may be any number.
template <class T_>
struct Number_ {
  static constexpr bool is_(int kind_, int size_) {
    return (int)sizeof(T_) == size_ && is_field_kind<T_>(kind_);
  }
};
template <class T_>
struct Number_<T_*> {
  static constexpr bool is_(int, int) { return false; }
};
template <>
struct Number_<Mismatch_> {
  static constexpr bool is_(int, int) { return false; }
};
template <>
struct Number_<Anything_> {
  static constexpr bool is_(int, int) { return true; }
};

template <class T_, class Other_>
struct IsType_ {
  enum { value_ = false };
};
template <class T_>
struct IsType_<T_, T_> {
  enum { value_ = true };
};
template <class Other_>
struct IsType_<Anything_, Other_> {
  enum { value_ = true };
};
template <>
struct IsType_<Anything_, Anything_> {
  enum { value_ = true };
};
template <>
struct IsType_<Anything_, Mismatch_> {
  enum { value_ = false };
};

// Whether a parameter is a number of a kind and size, or so many pointers to some.
template <class T_, int Pointers_>
constexpr bool is_number(int kind_, int size_) {
  return Number_<Declared_<T_, Pointers_>>::is_(kind_, size_);
}
// Whether it is of a type, or so many pointers to it.
template <class T_, int Pointers_, class Other_>
constexpr bool is_type() {
  return IsType_<Declared_<T_, Pointers_>, typename Unqualified_<Other_>::type_>::value_;
}
// Whether it is so many pointers to anything.
template <class T_, int Pointers_>
constexpr bool is_pointer() {
  return !IsType_<Declared_<T_, Pointers_>, Mismatch_>::value_;
}

}  // namespace kspec
