"""Names of operations beside the reference build (see names_scenarios.py), and some of our own."""

import unittest

import names_scenarios as programs
import numpy as np
from op_testing import case_tests

import jax
import jax.numpy as jnp

reference, test_reference, _ = case_tests(__file__)
x = np.arange(4, dtype=np.float32)


class NamesTest(unittest.TestCase):
    """Rules of users run once: the reference build names some of their operations twice."""

    def test_custom_jvp(self):
        fun = programs.under("S", jax.grad(programs.total(programs.custom_jvp)))
        self.assertIn("mul S/transpose(jvp(rule))", programs.traced(fun, x).split("\n"))

    def test_checkpoint(self):
        names = programs.compiled(jax.grad(jax.checkpoint(programs.body)), x).split("\n")
        self.assertIn("jit(body)/transpose(jvp())/checkpoint/once/mul", names)
        again = "jit(body)/transpose(jvp())/checkpoint/rematted_computation/once/cos"
        self.assertIn(again, names)

    def test_vmap_of_custom_vjp(self):
        fun = jax.vmap(jax.grad(programs.total(programs.custom_vjp)))
        names = programs.traced(fun, np.stack([x, x])).split("\n")
        self.assertIn("mul vmap(transpose(jvp(bwd)))", names)

    def test_equal_operations_share_a_function(self):
        def fun(x):
            return programs.under("a", jnp.argmax)(x) + programs.under("b", jnp.argmax)(x + 1)

        text = jax.jit(fun).lower(x).as_text(debug_info=True)
        self.assertEqual(text.count("func.func private @argmax"), 1)
        self.assertIn('"jit(fun)/a/argmax"', text)
        self.assertIn('"jit(fun)/b/argmax"', text)

    def test_printed(self):
        text = jax.make_jaxpr(jax.grad(programs.scoped))(x).pretty_print(name_stack=True)
        self.assertRegex(text, r"= cos \w+ +# \[jvp\(foo\)\]\n")


if __name__ == "__main__":
    unittest.main()
