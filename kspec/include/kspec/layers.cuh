// An operation that is a sum, which is rounded in one way wherever an element lies: on a GPU its
// kernel has it as a Layered, its first term and the parts that add the others.
//
// Where its terms read a window layer by layer, planes of three windowed axes or rows of two, from
// the farthest before the element on, there is a part for each layer. A thread with elements in
// several layers reads each layer once, adds its terms to the sums of all elements that the layer
// is near, and is done with it. Otherwise it would have the layers of the whole reach in registers.
// The order of the additions is the same, and so are the sums. kspec/spec/neighbours/layers.py
// tells which operations these are; window_layers.cuh runs them.
#pragma once

#include "kspec/opaque.cuh"
#include "kspec/operand.cuh"

namespace kspec {

template <class T> T some();
template <class One, class Other> constexpr bool is_same = false;
template <class One> constexpr bool is_same<One, One> = true;

template <class T> constexpr bool is_builtin_number = false;
template <> constexpr bool is_builtin_number<bool> = true;
template <> constexpr bool is_builtin_number<char> = true;
template <> constexpr bool is_builtin_number<signed char> = true;
template <> constexpr bool is_builtin_number<unsigned char> = true;
template <> constexpr bool is_builtin_number<short> = true;
template <> constexpr bool is_builtin_number<unsigned short> = true;
template <> constexpr bool is_builtin_number<int> = true;
template <> constexpr bool is_builtin_number<unsigned int> = true;
template <> constexpr bool is_builtin_number<long> = true;
template <> constexpr bool is_builtin_number<unsigned long> = true;
template <> constexpr bool is_builtin_number<long long> = true;
template <> constexpr bool is_builtin_number<unsigned long long> = true;
template <> constexpr bool is_builtin_number<float> = true;
template <> constexpr bool is_builtin_number<double> = true;

__device__ inline float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}
__device__ inline double fused(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return a * b + c;
#endif
}
// A number, or one of the types that are numbers of 16 or 8 bits in memory.
template <class T> constexpr bool is_narrow_or_number = is_builtin_number<T> || sizeof(T) <= 2;
template <class Sum, class A, class B, class Product>
constexpr bool is_fused = is_same<Sum, Product> && (is_same<Sum, float> || is_same<Sum, double>) &&
                          is_narrow_or_number<A> && is_narrow_or_number<B>;

// sum + a * b and sum - a * b, rounded once, as the compiler does it. Left to itself it decides for
// each copy of some code, by what else needs the product.
template <class Sum, class A, class B>
__device__ inline auto plus_product(const Sum& sum, const A& a, const B& b) {
  typedef decltype(a * b) Product;
  if constexpr (is_fused<Sum, A, B, Product>)
    return fused(static_cast<Product>(a), static_cast<Product>(b), sum);
  else
    return sum + a * b;
}
template <class Sum, class A, class B>
__device__ inline auto minus_product(const Sum& sum, const A& a, const B& b) {
  typedef decltype(a * b) Product;
  if constexpr (is_fused<Sum, A, B, Product>)
    return fused(-static_cast<Product>(a), static_cast<Product>(b), sum);
  else
    return sum - a * b;
}

template <int K, class Part> struct NthPart { Part part; };
template <int K, class Part>
__device__ inline const Part& part_of(const NthPart<K, Part>& parts) { return parts.part; }

template <class Numbers, class... Parts> struct AllParts;
template <int... K, class... Parts>
struct AllParts<Numbers<K...>, Parts...> : NthPart<K, Parts>... {};

template <class First, class... Parts> struct Layered {
  enum { LAYERS = sizeof...(Parts) };
  First first;
  AllParts<typename UpTo<LAYERS>::type, Parts...> parts;

  // All layers of one element.
  template <class Window, class Result>
  __device__ __forceinline__ void operator()(ptrdiff_t, const Window& window,
                                             Result& result) const {
    add<0>(rounded(first(window)), window, result);
  }
  template <int PART, class Sum, class Window, class Result>
  __device__ __forceinline__ void add(const Sum& sum, const Window& window, Result& result) const {
    if constexpr (PART < LAYERS - 1)
      add<PART + 1>(part_of<PART>(parts)(sum, window), window, result);
    else
      part_of<PART>(parts)(sum, window, result);
  }
  // Whether sums of all layers but the last one have this type.
  template <class Sum, class Window, int PART = 1> static constexpr bool adds() {
    if constexpr (PART < LAYERS - 1) {
      typedef decltype(part_of<PART>(some<Layered>().parts)(some<Sum>(), some<Window>())) Next;
      return is_same<Next, Sum> && adds<Sum, Window, PART + 1>();
    }
    return true;
  }
};
// The CPU rounds everything, and is best at the whole.
#ifdef KSPEC_HOST
template <class Whole, class... Parts> inline Whole layered(const Whole& whole, const Parts&...) {
  return whole;
}
#else
template <class Whole, class First, class... Parts>
__device__ inline Layered<First, Parts...> layered(const Whole&, const First& first,
                                                   const Parts&... parts) {
  return {first, {{parts}...}};
}
#endif

// What a thread reads of a layer: ROWS rows of V elements, and the elements around them.
template <class T, int ABOVE, int BELOW, int LEFT, int RIGHT, int ROWS, int V> struct Layer {
  enum { rows = ABOVE + ROWS + BELOW, columns = LEFT + V + RIGHT, above = ABOVE, left = LEFT };
  T value[rows][columns];

  // Around one of its elements, for the part that reads this layer.
  struct Near {
    const Layer& layer;
    int row, column;

    __device__ inline T read(ptrdiff_t, ptrdiff_t beside) const { return get(0, beside); }
    __device__ inline T read(ptrdiff_t, ptrdiff_t below, ptrdiff_t beside) const {
      return get(below, beside);
    }
    __device__ inline T center() const { return get(0, 0); }
    __device__ inline T get(ptrdiff_t below, ptrdiff_t beside) const {
      return layer.value[row + ABOVE + below][column + LEFT + beside];
    }
  };
};
// The sum of what the first part reads.
template <class Op, class Layer>
using SumOf = decltype(part_of<0>(some<Op>().parts)(
    rounded(some<Op>().first(some<typename Layer::Near>())), some<typename Layer::Near>()));

// Whether the sums of all parts have one type, for some type of elements.
template <class Op, class T, class One = Layer<T, 0, 0, 0, 0, 1, 1>>
constexpr bool adds_alike = Op::template adds<SumOf<Op, One>, typename One::Near>();

// Add part PART to the sums of V elements in a row of a layer. The first part begins them, the last
// one stores their results.
template <int PART, class Op, class Layer, class Sum, int V, class Store, int... J>
__device__ __forceinline__ void add_part(const Op& op, const Layer& layer, int row, int number,
                                         Sum (&sums)[V], const Store& store, Numbers<J...>) {
  typedef typename Layer::Near Near;
  const auto& part = part_of<PART>(op.parts);
  if constexpr (PART == 0) {
    ((sums[J] = part(rounded(op.first(Near{layer, row, J})), Near{layer, row, J})), ...);
  } else if constexpr (PART < Op::LAYERS - 1) {
    ((sums[J] = part(sums[J], Near{layer, row, J})), ...);
  } else {
    store(row, number, [&](auto& output) {
      (part(sums[J], Near{layer, row, J}, output.item(J)), ...);
    });
  }
}

// Read layer K of those that are read, and add it wherever it is near.
template <int K, class Layer, class Op, class Sum, int LAYERS, int ROWS, int V, class Load,
          class Store, int... STEP>
__device__ __forceinline__ void add_layer(const Op& op, Sum (&sums)[LAYERS][ROWS][V],
                                          const Load& load, const Store& store, Numbers<STEP...>) {
  Layer layer;
  load(layer, K);
  const auto add = [&](auto step) {
    enum { STEP_ = decltype(step)::value, PART = STEP_ % Op::LAYERS, ROW = STEP_ / Op::LAYERS };
    if constexpr (K - PART >= 0 && K - PART < LAYERS)
      add_part<PART>(op, layer, ROW, K - PART, sums[K - PART][ROW], store,
                     typename UpTo<V>::type());
  };
  (add(Number<STEP>()), ...);
}

// Compute the elements of a thread: ROWS rows of V in each of LAYERS layers. `load(layer, k)` reads
// layer k of all that are near them; `store(row, layer, compute)` has the results of a row
// computed.
template <class Layer, int LAYERS, int ROWS, int V, class Op, class Load, class Store, int... K>
__device__ __forceinline__ void compute_layers(const Op& op, const Load& load, const Store& store,
                                               Numbers<K...>) {
  SumOf<Op, Layer> sums[LAYERS][ROWS][V];
  (add_layer<K, Layer>(op, sums, load, store, typename UpTo<Op::LAYERS * ROWS>::type()), ...);
}

}  // namespace kspec
