"""Programs compiled for 4,096 TPU chips: see aot_programs.py."""

import aot_programs
from op_cases import Programs

CASES = Programs()
aot_programs.add_all(CASES, "v5p:16x16x16")
