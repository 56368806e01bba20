"""From preprocessed CUDA text to host C++ text."""

import pytest

from kspec.compiler.host.rewrite import Entry, rewrite

F = "__device__ void f() {{ {} }}"


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("__shared__ float s[64];",
         "typedef float kspec_type_s[64 ]; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("static __shared__ T s;",
         "typedef T kspec_type_s; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("volatile __shared__ unsigned int s[N][M + 1];",
         "typedef volatile unsigned int kspec_type_s[N ] [M + 1 ]; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("extern __shared__ float s[];",
         "typedef float kspec_type_s[ ]; KSPEC_HOST_DYNAMIC_SHARED(kspec_type_s, s)"),
        ("__shared__ __align__(16) pair<int, 3> s;",
         "typedef __attribute__((aligned(16))) pair < int , 3 > kspec_type_s; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("__shared__ alignas(double) char s[3];",
         "typedef __attribute__((aligned(::kspec_host::alignment_of<double>()))) "
         "char kspec_type_s[3]; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("__shared__ alignas(N > 3 ? 8 : 4) char s;",
         "typedef __attribute__((aligned(::kspec_host::alignment_of<(N > 3 ? 8 : 4)>()))) "
         "char kspec_type_s; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("__shared__ float s[1 << 3];",
         "typedef float kspec_type_s[1 << 3]; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("__shared__ float s[N < 9 ? N : 8];",
         "typedef float kspec_type_s[N < 9 ? N : 8]; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("__shared__ Foo<float*> s;",
         "typedef Foo<float*> kspec_type_s; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("__shared__ span<const float> s;",
         "typedef span<const float> kspec_type_s; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("const __shared__ Foo<Bar<int>, (3 > 2)> *const s;",
         "typedef const Foo<Bar<int>, (3 > 2)> *const kspec_type_s; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("float __shared__ s[3], (*p)[4];",
         "typedef float kspec_type_s[3]; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s) "
         "typedef float (*kspec_type_p)[4]; KSPEC_HOST_SHARED(kspec_type_p, p, kspec_tag_p)"),
        ("__shared__ typename T::template part<3>::type s;",
         "typedef typename T::template part<3>::type kspec_type_s; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("__shared__ struct { int a; } s;",
         "typedef struct {int a;} kspec_type_s;KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("case N < 3: __shared__ int s;",
         "case N < 3: typedef int kspec_type_s; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("auto f = [] __device__ (int) { __shared__ int s; };",
         "auto f = [] __device__ (int) { typedef int kspec_type_s; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s) };"),
    ],
)  # fmt: skip
def test_shared_memory(declaration, expected):
    squeezed = "".join(rewrite(F.format(declaration)).text.split())
    assert squeezed == "".join(F.format(expected).split())


def test_several_variables_and_lines():
    text = F.format("__shared__ int a,\n  *b; int c;")
    rewritten = rewrite(text).text
    assert rewritten.count("\n") == 1
    assert "typedef int kspec_type_a;" in rewritten
    assert "typedef int *kspec_type_b;" in rewritten
    assert rewritten.endswith("int c; }")


@pytest.mark.parametrize(
    "text",
    [
        "int x = 1; // __shared__ float s[3];",
        'const char* s = "__shared__ float s[3];";',
        "#define TILE __shared__ float tile[4];",
        "template <class T> __shared__ T variable_template[4];",
        "template <class T> __global__ void k(T* x) { x[0] = 1'000; }",
        "__global__ void declared(int*);",
        'auto s = R"x(__global__ void k() {})x";',
        "struct S { __device__ int member; };",
        "extern __constant__ int elsewhere;",
        "__device__ int function(int);",
    ],
)
def test_left_alone(text):
    assert rewrite(text).text == text and not rewrite(text).entries


def test_kernels_get_entries():
    text = 'extern "C" __global__ void __launch_bounds__(256, 2) a(int x) { if (x) { } }\n'
    text += "namespace n { __global__ void b(float* p) {} }  // C++ linkage\n"
    text += "template <> __global__ void c<int>(int*) {}\n"
    text += 'extern "C" { __global__ void d() {} }'
    result = rewrite(text, first_number=3, known=["d"])
    assert result.entries == (Entry("a", "kspec_entry_3"),)
    assert "{ if (x) { } } KSPEC_HOST_KERNEL(3, &a)\n" in result.text
    assert "float* p) {} }  // C++ linkage\n" in result.text


def test_variables_get_entries():
    text = "__constant__ float c[2] = {1, 2};\nnamespace n { __device__ int i, *p = f(1); }"
    result = rewrite(text)
    assert [entry.name for entry in result.entries] == ["c", "n::i", "n::p"]
    assert "= {1, 2}; KSPEC_HOST_CONSTANT(0, c)\n" in result.text


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ('extern "C" __global__ void k(int n = f(3), A a = A{1}) {', "k"),
        ('__launch_bounds__(64) extern "C" __global__ void k() noexcept {', "k"),
        ('extern "C" __attribute__((used)) [[gnu::hot]] void __global__ k(A<(3 > 2)> a) {', "k"),
        ('extern "C" __global__ void (k)(int* x) {', "k"),
        ('extern "C" __global__ auto k(int* x) -> void {', "k"),
        ('extern "C" __global__ void k(int (*f)(int), int (&&)[3]) {', "k"),
        ('extern "C" <% __global__ void k(int x<:3:>) {', "k"),
        ('extern "C" __global__ void __maxnreg__(32) k(int*) {', "k"),
        ('namespace n { extern "C" __global__ void k() {', "k"),
        ('inline namespace a::b { extern "C" { static int x; __global__ void k() {', "k"),
        ("struct S { __global__ void k() {", None),
        ('extern "C" __device__ void k() {', None),
        ("template <class T = A<int>, int N = (3 > 2)> __global__ void k() {", None),
    ],
)
def test_the_names_of_kernels(declared, name):
    (found,) = [entry.name for entry in rewrite(f"{declared} }}").entries] or [None]
    assert found == name


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("__device__ int x{3}, y;", ["x", "y"]),
        ("__device__ int x(3);", ["x"]),
        ("__device__ void (*table[2])(int) = {f, g};", ["table"]),
        ("__constant__ A<B<int>, (1 >> 2)> a;", ["a"]),
        ("__device__ struct { int a[2]; } s, *p;", ["s", "p"]),
        ("__device__ auto f = [] __device__ (int x) { return x; };", ["f"]),
        ("__device__ decltype(1 < 2) flag = 1 < 2;", ["flag"]),
        ("__device__ constexpr A x = {{1, 2}, 3};", ["x"]),
        ('extern "C" __device__ int x = 1;', ["x"]),
        ('extern "C" __device__ int x;', []),
        ("__device__ A& A::operator=(const A& a) { return *this; }", []),
        ("__device__ T operator+(T, T);", []),
        ("__device__ int f(A a), g(int);", []),
        ("typedef __device__ int type;", []),
    ],
)
def test_the_names_of_variables(statement, names):
    assert [entry.name for entry in rewrite(statement).entries] == names


def test_variable_templates():
    text = "namespace n { template <class T, int N = (3 > 2)> __device__ T table[N] = {1}; }"
    assert rewrite(text).variable_templates == ("n::table",)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('void f() { asm volatile("exit;"); __asm__("exit;"); }', [11, 34]),
        ("void f() { k<<<1, 1>>>(); }", [12]),
        ("__global__ void __cluster_dims__(2) k() {}", [16]),
        ("void f() { __shared__ int x = 3; }", [11]),
        ("void f() { __shared__ A x{3}, y; }", [11]),
        ('const char* s = "asm <<<"; int x = a << b < c;', []),
    ],
)
def test_refusals(text, offsets):
    assert [refusal.offset for refusal in rewrite(text).refusals] == offsets


def test_noinline():
    text = "__device__ __noinline__ int f(); __attribute__((__noinline__, cold)) int g();"
    expected = text.replace("__ __noinline__", "__ __attribute__((noinline))")
    assert rewrite(text).text == expected


def test_line_markers_keep_what_is_whose():
    text = (
        '# 1 "k.cu"\nvoid f() {\n__shared__ int a;\n# 1 "/usr/include/x.h" 1 3\n'
        '__shared__ int b;\n# 4 "k.cu" 2\n__shared__ int\n# 40 "k.cu"\nc;\n'
        '# 1 "/dialect/y.h" 1\n__shared__ int d;\n# 42 "k.cu" 2\n}\n'
    )
    rewritten = rewrite(text, foreign=("/dialect/",)).text
    lines = rewritten.splitlines()
    assert lines[2].startswith("typedef int kspec_type_a;")
    assert lines[4] == "__shared__ int b;" and "__shared__ int d;" in lines
    assert lines[6].startswith("typedef int kspec_type_c;")
    assert lines[7:9] == ['# 40 "k.cu"', ""]  # line 41 follows, as before


def test_calls_on_one_line_are_told_apart():
    text = '# 7 "k.cu"\nvoid f() {\n  if (c) __syncthreads(); else g->at[i].sync();\n  sync();\n}\n'
    rewritten = rewrite(text, site_of=lambda offset, number: f"{text[offset]}{number}").text
    assert rewritten == (
        '# 7 "k.cu"\nvoid f() {\n  if (c) \n# 8 "_1"\n__syncthreads(); else \n# 8 "s2"\n'
        'g->at[i].sync();\n# 9 "k.cu"\n  sync();\n}\n'
    )


@pytest.mark.parametrize(
    "header",
    [
        "__shared__ int a; void g() { sync(); sync(); __shared__ int b; }",
        "extern __shared__ int a[]; template <class T> __constant__ T c; void g() { asm(0); }",
        'extern "C" __global__ void h() {} __constant__ int c;',
        "namespace n {",  # which the source closes
        "__shared__",
        "__global__ void h() { f(threadIdx.x); }",
    ],
)
def test_headers_that_were_read_before_change_nothing(header, monkeypatch):
    texts = [
        f'# 1 "k.cu"\n# 1 "h.cuh" 1\n{header}\n# 2 "k.cu" 2\n{body}\n'
        for body in ("int d; }", "int d; __shared__ int e; void k() { sync(); sync(); }", "")
    ]

    def results():
        site = {"site_of": lambda offset, number: f"{offset} {number}"}
        return [rewrite(text, 2, ["d"], loops=True, **site) for text in texts]

    found = results()
    monkeypatch.setattr("kspec.compiler.host.rewrite._front", lambda *given: None)
    assert found == results()
