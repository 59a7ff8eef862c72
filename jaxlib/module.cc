// The Python module `jaxlib_ext._kernels`.

#include <nanobind/nanobind.h>

#include "jaxlib/kernels/handlers.h"
#include "jaxlib/kernels/vector_sort.h"

namespace nb = nanobind;

namespace {

template <typename Handler>
nb::capsule Capsule(Handler* handler) {
  return nb::capsule(reinterpret_cast<void*>(handler));
}

// By name: what `jax.ffi.register_ffi_target` takes.
nb::dict Handlers() {
  nb::dict handlers;
  handlers["jaxlib_ext_bcoo_product"] = Capsule(JaxlibExtBcooProduct);
  handlers["jaxlib_ext_coo_product"] = Capsule(JaxlibExtCooProduct);
  handlers["jaxlib_ext_csr_product"] = Capsule(JaxlibExtCsrProduct);
  handlers["jaxlib_ext_sort"] = Capsule(JaxlibExtSort);
  handlers["jaxlib_ext_top_k"] = Capsule(JaxlibExtTopK);
  handlers["jaxlib_ext_cumulative"] = Capsule(JaxlibExtCumulative);
  handlers["jaxlib_ext_threefry_bits"] = Capsule(JaxlibExtThreefryBits);
  // The same, with results that have floating-point types.
  handlers["jaxlib_ext_threefry_bits_of_floats"] = Capsule(JaxlibExtThreefryBits);
  handlers["jaxlib_ext_scatter_add"] = Capsule(JaxlibExtScatterAdd);
  handlers["jaxlib_ext_elementwise"] = Capsule(JaxlibExtElementwise);
  handlers["jaxlib_ext_erf_inv"] = Capsule(JaxlibExtErfInv);
  handlers["jaxlib_ext_determinants_3x3"] = Capsule(JaxlibExtDeterminants3x3);
  handlers["jaxlib_ext_search_sorted"] = Capsule(JaxlibExtSearchSorted);
  handlers["jaxlib_ext_attention"] = Capsule(JaxlibExtAttention);
  handlers["jaxlib_ext_attention_gradient"] = Capsule(JaxlibExtAttentionGradient);
  return handlers;
}

}  // namespace

NB_MODULE(_kernels, m) {
  m.doc() = "CPU kernels for jax, as handlers of XLA's foreign function interface.";
  m.def("handlers", &Handlers, "Capsules with the handlers, by the name of their target.");
  m.def("vector_target", &jaxlib_ext::VectorSortTarget,
        "The vector instruction set that sorting uses, or 'none'.");
}
