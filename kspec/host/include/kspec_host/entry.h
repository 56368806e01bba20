// The exported entry points: one for each kernel, found by the loader under KSPEC_HOST_KERNEL's
// number.
#pragma once

namespace kspec_host {

template <class T, T... I> struct Sequence {};
template <unsigned... I> using Indices = Sequence<unsigned, I...>;
// 0 to N - 1, of the compiler itself: recursion would end at its depth.
#if defined(__clang__)
template <unsigned N> using MakeIndices = __make_integer_seq<Sequence, unsigned, N>;
#else
template <unsigned N> using MakeIndices = Indices<__integer_pack(N)...>;
#endif

static inline KSPEC_HOST_UNCHECKED void begin_block(Block* block) {
  kspec_context = {block, 0, 0, 0, 0, &kspec_context, &threadIdx};
  block->static_used = 0;
#if KSPEC_HOST_CHECK_BOUNDS
  block->module = &kspec_module;
#else
  block->module = nullptr;
#endif
  blockIdx = {block->index[0], block->index[1], block->index[2]};
  blockDim = dim3(block->block[0], block->block[1], block->block[2]);
  gridDim = dim3(block->grid[0], block->grid[1], block->grid[2]);
}

// Other blocks of a cooperative launch ran meanwhile.
static inline KSPEC_HOST_UNCHECKED void resume_block(Block* block) {
  unsigned used = block->static_used;
  begin_block(block);
  block->static_used = used;
  set_file_shared(block);
  kspec_context.next_x = blockDim.x, kspec_context.next_z = blockDim.z;  // no thread is left
}

// Advance to the next row of threads once one is used up.
static inline KSPEC_HOST_UNCHECKED void begin_row(Context* context, unsigned height, unsigned depth) {
  if (++context->next_y >= height) {
    context->next_y = 0;
    if (++context->next_z >= depth) return;
  }
  context->next_x = 0;
}

// With `order=`: take the next thread of the permutation; next_x counts how many were taken.
static inline KSPEC_HOST_UNCHECKED bool next_in_order(Context* context, uint3* thread,
                                                      const dim3& shape) {
  if (context->next_z >= shape.z) return false;
  unsigned rank = context->block->order[context->next_x++];
  *thread = {rank % shape.x, rank / shape.x % shape.y, rank / (shape.x * shape.y)};
  if (context->next_x == shape.x * shape.y * shape.z) context->next_z = shape.z;
  return true;
}

// The address of a thread-local variable, found once: g++ would call __tls_get_addr() at each use.
template <class T> static inline KSPEC_HOST_UNCHECKED T* keep_address(T& variable) {
  T* address = &variable;
  asm("" : "+r"(address));
  return address;
}

// How an argument is handed over: a reference as the address of what it refers to, as on a GPU.
template <class T> struct Parameter {
  typedef typename RemoveConst<T>::type type;
  static KSPEC_HOST_UNCHECKED __attribute__((always_inline)) inline type& at(void* place) {
    return *(type*)place;
  }
};
template <class T> struct Parameter<T&> {
  typedef T* type;
  static KSPEC_HOST_UNCHECKED __attribute__((always_inline)) inline T& at(void* place) {
    return **(type*)place;
  }
};

template <class T> struct PointerFlags { static constexpr unsigned value = 0; };
template <class T> struct PointerFlags<T*> { static constexpr unsigned value = 1; };
template <class T> struct PointerFlags<const T*> { static constexpr unsigned value = 3; };

#if KSPEC_HOST_CHECK_BOUNDS
// A kernel saves the registers of its caller behind its local arrays. Where one of them was written
// over, its caller must not go on with what it finds in registers.
static KSPEC_HOST_UNCHECKED __attribute__((noinline, cold)) void overrun(const void* kernel) {
  Caller here = caller();
  kspec_runtime->overrun(here.worker, here.thread, kernel);
}
#endif

template <class T>
constexpr bool is_in_register = sizeof(T) <= 8 && !__is_class(T) && !__is_union(T);

template <class T> constexpr bool is_class = true;
template <> constexpr bool is_class<void> = false;

// A kernel, and a class of what compiler/host/loops wrote for it, or void.
template <auto Function, class Loops = void> struct KspecKernel;

template <class... A, void (*Function)(A...), class Loops> struct KspecKernel<Function, Loops> {
  // The bytes of each parameter, 0, and for each whether it is a pointer (1) to constants (2).
  static inline const unsigned kspec_sizes[2 * sizeof...(A) + 1] = {
      (unsigned)sizeof(typename Parameter<A>::type)..., 0,
      PointerFlags<typename Parameter<A>::type>::value...};

#if (KSPEC_HOST_CHECK_ACCESS || KSPEC_HOST_CHECK_BOUNDS) && defined(__clang__)
  // The caller is not instrumented, and older clangs would inline the kernel into it before they
  // instrument: it is inlined into this function instead, which is.
  static __attribute__((noinline)) void call(A... arguments) { Function(arguments...); }
#define KSPEC_HOST_CALL call
#else
#define KSPEC_HOST_CALL Function
#endif

#if KSPEC_HOST_CHECK_BOUNDS
  // Where the stack is no longer the kernel's: without parameters in memory, at its return address.
  static KSPEC_HOST_UNCHECKED __attribute__((always_inline)) inline char* frames_above() {
#if defined(__x86_64__) && !defined(__clang__)
    if (sizeof...(A) <= 6 && (is_in_register<typename Parameter<A>::type> && ...)) {
      char* top;
      asm volatile("mov %%rsp, %0" : "=r"(top));
      return top - 8;
    }
#endif
    return (char*)__builtin_frame_address(0);
  }
#endif

  // Start CUDA threads until none is left. Several fibers may be in here, taking turns.
  template <unsigned... I>
  static KSPEC_HOST_UNCHECKED void take_threads(void** parameters, Indices<I...>) {
    Context* context = keep_address(kspec_context);
    uint3* thread = keep_address(threadIdx);
#if KSPEC_HOST_CHECK_BOUNDS
#define KSPEC_HOST_INTACT() (context->self == context ? (void)(thread = context->thread) : overrun((const void*)Function))
#else
#define KSPEC_HOST_INTACT() ((void)0)
#endif
    const dim3 shape = blockDim;
#if KSPEC_HOST_CHECK_BOUNDS
    kspec_runtime->close_frames(context->block->worker, frames_above());
#endif
    if (context->block->order) {
      while (next_in_order(context, thread, shape)) {
        asm volatile("" ::: "memory");
        KSPEC_HOST_CALL(Parameter<A>::at(parameters[I])...);
        KSPEC_HOST_INTACT();
      }
      return;
    }
    while (context->next_z < shape.z) {
      while (context->next_x < shape.x) {
        *thread = {context->next_x++, context->next_y, context->next_z};
        if (context->next_x == shape.x) begin_row(context, shape.y, shape.z);
        // The compiler must not merge threads: a fault is to be that of the thread that made it.
        asm volatile("" ::: "memory");
        KSPEC_HOST_CALL(Parameter<A>::at(parameters[I])...);
        KSPEC_HOST_INTACT();
      }
    }
  }

#if KSPEC_HOST_CHECK_BOUNDS
  static constexpr bool has_loops() {
    if constexpr (is_class<Loops>) {
      return (Loops::kspec_is_plain && ... && is_number<typename RemoveConst<A>::type>);
    } else {
      return false;
    }
  }

  template <unsigned... I>
  static KSPEC_HOST_UNCHECKED void fit_loops(Block* block, Indices<I...>) {
    block->fit = LOOPS_NEVER;
    if constexpr (has_loops())
      block->fit = Loops::kspec_fit(BlockRun(block), Parameter<A>::at(block->parameters[I])...);
  }

  template <unsigned... I>
  static KSPEC_HOST_UNCHECKED __attribute__((noinline)) void run_loops(Block* block,
                                                                       Indices<I...>) {
    if constexpr (has_loops())
      Loops::kspec_loops(BlockRun(block), Parameter<A>::at(block->parameters[I])...);
  }

#if defined(__x86_64__)
  // The same in wider registers.
  template <unsigned... I>
  static KSPEC_HOST_UNCHECKED __attribute__((noinline, target("avx2"))) void run_wide_loops(
      Block* block, Indices<I...>) {
    if constexpr (has_loops())
      Loops::kspec_loops(BlockRun(block), Parameter<A>::at(block->parameters[I])...);
  }
#endif
#endif

  static KSPEC_HOST_UNCHECKED void kspec_run(int call, void* argument) {
    Block* block = static_cast<Block*>(argument);
    typedef MakeIndices<sizeof...(A)> Parameters;
    switch (call) {
      case SHARED_BYTES: block->file_shared = file_shared_bytes; break;
      case BEGIN_BLOCK: begin_block(block); break;
      case PLACE_SHARED: set_file_shared(block); break;
      case RESUME_BLOCK: resume_block(block); break;
      case TAKE_THREADS:
        take_threads(block->parameters, Parameters());
        break;
#if KSPEC_HOST_CHECK_BOUNDS
      case FIT_LOOPS: fit_loops(block, Parameters()); break;
      case RUN_LOOPS:
        threadIdx = {0, 0, 0};
#if defined(__x86_64__)
        if (block->has_avx2) {
          run_wide_loops(block, Parameters());
          break;
        }
#endif
        run_loops(block, Parameters());
        break;
#endif
      case WHICH_THREAD: block->thread = thread_rank(); break;
    }
  }
};

}  // namespace kspec_host

extern "C" __attribute__((visibility("default"), used)) unsigned kspec_bind(
    const kspec_host::Runtime* runtime, unsigned version) {
  kspec_runtime = runtime;
  return version == kspec_host::ABI_VERSION ? kspec_host::shared_variable_count : ~0u;
}

// Asked while another thread's kernel runs, which must not take this for a step of its own.
extern "C" __attribute__((visibility("default"), used)) KSPEC_HOST_UNCHECKED unsigned long
kspec_shared_bytes() {
  return kspec_host::shared_variable_bytes;
}
