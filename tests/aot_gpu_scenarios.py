"""Programs compiled for two hosts of eight GPUs: see aot_programs.py."""

import aot_programs
from op_cases import Programs

CASES = Programs()
aot_programs.add_all(CASES, "h100")
