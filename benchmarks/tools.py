"""What the tools cost that look inside of programs: when they are not used, and when they are.

Like suite.py, this runs on both sides. Where PyPI's jax has no such tool, its side runs the program without one.
"""

from registry import timed

import jax


@timed("tools", "print_environment_info, with the doctor's checks", mark=None)
def describe_environment():
    jax.devices()
    return lambda: jax.print_environment_info(return_string=True)
