"""The dialect accepts what NVRTC accepts and refuses what it refuses: no GPU needed to know."""

import pytest

from kspec.compiler.cuda.nvrtc import compile_cuda, nvrtc_version
from kspec.compiler.host.compile import compile_host
from kspec.errors import CompileError, ToolNotFoundError
from kspec.model.stages import CudaSource, Target

ACCEPTED = """
pow(2.f, 2), pow(2, 2.0), fmax(1, 2.0), abs((short)3), abs(3.f), abs(-3LL), isnan(1.f), isinf(1.0)
signbit(1.f), min(1u, 2), min(1.f, 2.0), min(1ll, 2ull), min(1l, 2ul)
max((char)1, 2), min(true, 2), umin(1u, 2u), llmax(1, 2)
__shfl_sync(~0u, (short)1, 0), __shfl_sync(~0u, 1.5, 0), __shfl_xor_sync(~0u, 1ul, 3)
__match_any_sync(~0u, 1.5f), __ballot_sync(~0u, true), __reduce_add_sync(~0u, 1u)
atomicAdd((float*)p, 1), atomicAdd((float*)p, 1.0), atomicAdd(p, 1u), atomicMax((long long*)p, 1LL)
atomicAdd((unsigned long long*)p, 1), atomicAnd((long long*)p, 1LL), atomicExch((float*)p, 1.f)
atomicCAS((unsigned short*)p, 1, 2), atomicInc((unsigned*)p, 3u), atomicSub((unsigned*)p, 1u)
__ldg((const double*)p), __ldg((const int4*)p).x, __ldcg(p), __ldcv(p)
exp10f(2), rsqrt(4.f), lround(2.f), sinpi(1.f), erfinv(0.5f), fma(1.f, 2.f, 3.f), ldexp(1.f, 2)
norm3df(1, 2, 3), rnorm4df(1.f, 2.f, 3.f, 4.f), normf(2, (float*)p), rnorm(2, (double*)p), j0f(1.f)
fdividef(1, 2), logb(2.f), ilogb(2.0), remquof(1.f, 2.f, p), cyl_bessel_i1f(1.f), normcdfinvf(.5f)
__sinf(1), __saturatef(2.f), __fadd_rz(1.f, 2.f), __fmul_ru(1.f, 2.f), __dadd_rd(1., 2.)
__frcp_rz(2.f), __fsqrt_rd(2.f), __fmaf_rz(1.f, 2.f, 3.f), __int2float_rz(3), __double2float_rz(3.)
__float2int_rn(1), __hiloint2double(1, 2), __usad(1u, 2u, 3u), __hadd(1, 2), __mul64hi(1ll, 2ll)
__funnelshift_lc(1u, 2u, 3u), __byte_perm(1u, 2u, 3u), __clz(1u), __popc(1ull), __dp4a(1, 2, 3)
clock(), clock64(), nanf(""), warpSize, __activemask(), gridDim.x + dim3(1).y, printf("%d", 1)
malloc(4) != p, make_float4(1, 2, 3, 4).w, double4{1, 2, 3, 4}.x
"""

REFUSED = """
sin(1); sqrt(2u); pow(2, 3); fabs(3); round(2); isnan(1); isfinite(2); log2(8); fma(1, 2, 3)
INFINITY; NAN; M_PI; HUGE_VALF; FLT_MAX; INT_MAX; uint8_t(1); abs(3u)
__shfl_sync(~0u, make_float2(1, 2), 0).x; __shfl_sync(~0u, p, 0) == p
__match_any_sync(~0u, make_int2(1, 2)); __reduce_add_sync(~0u, 1.f); __reduce_add_sync(~0u, 1ull)
atomicAdd((long long*)p, 1LL); atomicMax((float*)p, 1.f); atomicExch((double*)p, 1.0)
atomicCAS((float*)p, 1.f, 2.f); atomicSub((float*)p, 1.f); atomicAdd((unsigned long*)p, 1ul)
__ldg((const bool*)p); std::sqrt(2.f); __half(1); min(1ul, 2); min(1, 2LL)
min(1.f, 2); min(1l, 2)
"""


def kernel(expression: str) -> CudaSource:
    return CudaSource("k.cu", f"__global__ void k(int* p) {{ auto v = {expression}; (void)v; }}")


def split(text: str, separator: str) -> list[str]:
    """Split at the separators outside parentheses."""
    parts, depth = [""], 0
    for char in text.strip().replace("\n", separator):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(char, 0)
        if char == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def gpu(source: CudaSource) -> None:
    try:
        nvrtc_version()
    except ToolNotFoundError:
        pytest.skip("NVRTC is not installed")
    compile_cuda(source, Target("compute_80"))


@pytest.mark.parametrize("compiler", [compile_host, gpu])
def test_accepted(compiler):
    # One kernel for all: the position in the log tells which failed.
    lines = [f"auto v{i} = {e}; (void)v{i};" for i, e in enumerate(split(ACCEPTED, ","))]
    text = "__global__ void k(int* p) {\n" + "\n".join(lines) + "\n}"
    compiler(CudaSource("accepted.cu", text))


@pytest.mark.parametrize("compiler", [compile_host, gpu])
@pytest.mark.parametrize("expression", split(REFUSED, ";"))
def test_refused(compiler, expression):
    with pytest.raises(CompileError):
        compiler(kernel(expression))
