"""Programs compiled for four TPU chips: see aot_programs.py."""

import aot_programs
from op_cases import Programs

CASES = Programs()
aot_programs.add_all(CASES, "v5e:2x2")
