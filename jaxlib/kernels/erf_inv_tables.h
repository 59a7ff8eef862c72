// How the inverse of the error function is approximated.

#ifndef JAXLIB_KERNELS_ERF_INV_TABLES_H_
#define JAXLIB_KERNELS_ERF_INV_TABLES_H_

namespace jaxlib_ext {

// For |x| <= 7/8, erfinv(x) / x - 1 is a quotient of polynomials in 49/64 - x**2, whose relative error is 2**-26.6 of
// erfinv(x). Coefficients are from the constant one upwards.
inline constexpr float kErfInvCenter = 0.765625f;
inline constexpr float kErfInvAbove[] = {0.2397566f, 0.37138548f, -1.7485644f, -2.114474f, -0.18646736f};
inline constexpr float kErfInvBelow[] = {1.0f, 6.0025878f, 9.8495736f, 4.173407f, 0.18646736f};

// Elsewhere erfinv(x) / x is one in -log2(1 - x**2), as in jax/_src/lax/special/normal_tables.py.
inline constexpr float kErfInvTailAbove[] = {0.88622695f, 0.21320017f,    0.028761938f,
                                             0.0025988352f, 1.4925768e-04f, 3.8133323e-06f};
inline constexpr float kErfInvTailBelow[] = {1.0f, 0.059105463f, 0.015466439f, 6.3442485e-04f, 4.1028736e-05f, 2.0074428e-07f};
// log2(1 + x) / x of x from sqrt(1/2) - 1 to sqrt(2) - 1
inline constexpr float kErfInvLog2[] = {1.4426948f,  -0.72135717f, 0.4809394f, -0.36008674f,
                                        0.2867088f, -0.25007656f, 0.2368816f, -0.14570788f};

}  // namespace jaxlib_ext

#endif  // JAXLIB_KERNELS_ERF_INV_TABLES_H_
