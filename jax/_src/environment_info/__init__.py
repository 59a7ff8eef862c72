"""The description of the environment that bug reports need, and the doctor that says what is wrong with it."""

from jax._src.environment_info.description import print_environment_info as print_environment_info
from jax._src.environment_info.doctor import diagnose as diagnose, main as main
from jax._src.environment_info.findings import Finding as Finding, Level as Level
