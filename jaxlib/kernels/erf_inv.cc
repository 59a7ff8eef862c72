#include "jaxlib/kernels/erf_inv.h"

#include "jaxlib/kernels/vector_erf_inv.h"

namespace jaxlib_ext {
namespace {

// A thread gets at least so many numbers.
constexpr size_t kGrain = 1 << 14;

}  // namespace

void ErfInv(TaskRunner& runner, const float* in, size_t size, float* out) {
  ParallelRanges(runner, size, kGrain, [&](size_t begin, size_t end) {
    VectorErfInv(in + begin, end - begin, out + begin);
  });
}

}  // namespace jaxlib_ext
