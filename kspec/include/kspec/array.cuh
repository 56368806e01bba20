// CArray and CIndexer, CuPy's arrays and multi-indices, for functions of a user's preamble. A raw
// argument is one (kspec/operand.cuh), with kspec's rules for the constness of its elements.
#pragma once

namespace kspec {

template <class Value> struct Mutable { typedef Value type; };
template <class Value> struct Mutable<const Value> { typedef Value type; };

template <bool, class Yes, class No> struct Choose { typedef Yes type; };
template <class Yes, class No> struct Choose<false, Yes, No> { typedef No type; };

// What `x[{a, b}]` is converted to. With less than two axes it would compete with `x[{k}]`, which
// the flat index takes.
struct NoIndex { __device__ NoIndex(NoIndex*, NoIndex*); };
template <int Rank> struct Index { typedef ptrdiff_t type[Rank]; };
template <> struct Index<0> { typedef NoIndex type; };
template <> struct Index<1> { typedef NoIndex type; };

// CuPy compiles a kernel anew for contiguous arrays (Contiguous) and for those of at most 2 GiB
// (Narrow). Here both are the same in memory, contiguous_ tells, and each converts to any other.
// Elements of a constant array are constant.
template <class Value, int Rank, bool Contiguous = false, bool Narrow = false> class CArray {
 public:
  static constexpr int ndim = Rank;
  static constexpr bool c_contiguous = Contiguous;
  typedef typename Choose<Narrow, int, ptrdiff_t>::type index_t;
  enum { room = Rank > 0 ? Rank : 1 };

  Value* data_;
  ptrdiff_t size_;
  ptrdiff_t shape_[room];
  ptrdiff_t strides_[room];  // in bytes
  int contiguous_;

  __device__ inline CArray() : CArray(nullptr) {}
  __device__ inline explicit CArray(Value* data)
      : data_(data), size_(1), shape_{}, strides_{}, contiguous_(1) {}
  template <class Extent> __device__ inline CArray(Value* data, const Extent* shape) {
    set(data, shape);
  }
  template <class Extent, class Step>
  __device__ inline CArray(Value* data, const Extent* shape, const Step* strides) {
    set(data, shape);
    contiguous_ = Contiguous;
    for (int axis = 0; axis < Rank; ++axis) strides_[axis] = (ptrdiff_t)strides[axis];
  }
  // From lists: CArray<T, 2, true>(data, {2, 3}).
  __device__ inline CArray(Value* data, const ptrdiff_t (&shape)[room]) { set(data, shape); }
  __device__ inline CArray(Value* data, const ptrdiff_t (&shape)[room],
                           const ptrdiff_t (&strides)[room])
      : CArray(data, (const ptrdiff_t*)shape, (const ptrdiff_t*)strides) {}

  template <bool Flat, bool Short>
  __device__ inline operator CArray<Value, Rank, Flat, Short>&() {
    return *reinterpret_cast<CArray<Value, Rank, Flat, Short>*>(this);
  }
  template <bool Flat, bool Short>
  __device__ inline operator const CArray<Value, Rank, Flat, Short>&() const {
    return *reinterpret_cast<const CArray<Value, Rank, Flat, Short>*>(this);
  }

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline const ptrdiff_t* shape() const { return Rank > 0 ? shape_ : nullptr; }
  __device__ inline const ptrdiff_t* strides() const { return Rank > 0 ? strides_ : nullptr; }

  __device__ inline Value& operator[](ptrdiff_t k) { return *place(k); }
  __device__ inline const Value& operator[](ptrdiff_t k) const { return *place(k); }
  __device__ inline Value& operator[](const typename Index<Rank>::type& index) {
    return *at(index);
  }
  __device__ inline const Value& operator[](const typename Index<Rank>::type& index) const {
    return *at(index);
  }
  // Templates, so that the literal 0 stays an integer.
  template <class Extent> __device__ inline Value& operator[](const Extent* index) {
    return *at(index);
  }
  template <class Extent> __device__ inline const Value& operator[](const Extent* index) const {
    return *at(index);
  }

 private:
  template <class Extent> __device__ inline void set(Value* data, const Extent* shape) {
    data_ = data;
    size_ = 1;
    contiguous_ = 1;
    shape_[0] = strides_[0] = 0;
    for (int axis = Rank - 1; axis >= 0; --axis) {
      shape_[axis] = (ptrdiff_t)shape[axis];
      strides_[axis] = size_ * (ptrdiff_t)sizeof(Value);
      size_ *= shape_[axis];
    }
  }
  __device__ inline Value* moved(ptrdiff_t bytes) const {
    return reinterpret_cast<Value*>(reinterpret_cast<size_t>(data_) + bytes);
  }
  __device__ inline Value* place(ptrdiff_t k) const {
    if (Rank == 0) return data_;
    if (Contiguous || contiguous_) return data_ + k;
    ptrdiff_t offset = 0;
#pragma unroll
    for (int axis = room - 1; axis > 0; --axis) {
      const ptrdiff_t rest = k / shape_[axis];
      offset += (k - rest * shape_[axis]) * strides_[axis];
      k = rest;
    }
    return moved(offset + k * strides_[0]);
  }
  template <class Extent> __device__ inline Value* at(const Extent* index) const {
    ptrdiff_t offset = 0;
#pragma unroll
    for (int axis = 0; axis < Rank; ++axis) offset += (ptrdiff_t)index[axis] * strides_[axis];
    return moved(offset);
  }
};

// A multi-index over a shape.
template <int Rank, bool Narrow = false> class CIndexer {
 public:
  static constexpr int ndim = Rank;
  enum { room = Rank > 0 ? Rank : 1 };
  typedef ptrdiff_t index_t[room];

  __device__ inline CIndexer() : size_(1), shape_{}, index_{} {}
  template <class Extent> __device__ inline explicit CIndexer(const Extent* shape) {
    set_shape(shape);
  }
  template <class Extent, class Step>
  __device__ inline CIndexer(const Extent* shape, const Step* index) {
    set_shape(shape);
    for (int axis = 0; axis < Rank; ++axis) index_[axis] = (ptrdiff_t)index[axis];
  }
  __device__ inline CIndexer(const ptrdiff_t (&shape)[room]) { set_shape(shape); }
  __device__ inline CIndexer(const ptrdiff_t (&shape)[room], const ptrdiff_t (&index)[room])
      : CIndexer((const ptrdiff_t*)shape, (const ptrdiff_t*)index) {}

  __device__ inline ptrdiff_t size() const { return size_; }
  __device__ inline const index_t& get() const { return index_; }
  __device__ inline void set(ptrdiff_t i) {
#pragma unroll
    for (int axis = room - 1; axis > 0; --axis) {
      const ptrdiff_t rest = i / shape_[axis];
      index_[axis] = i - rest * shape_[axis];
      i = rest;
    }
    index_[0] = i;
  }

 private:
  ptrdiff_t size_;
  ptrdiff_t shape_[room];
  index_t index_;

  template <class Extent> __device__ inline void set_shape(const Extent* shape) {
    size_ = 1;
    shape_[0] = 0;
    for (int axis = 0; axis < Rank; ++axis) {
      shape_[axis] = (ptrdiff_t)shape[axis];
      index_[axis] = 0;
      size_ *= shape_[axis];
    }
  }
};

}  // namespace kspec
