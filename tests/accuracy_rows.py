"""The rows of docs/accuracy.md, for tests."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).absolute().parent.parent / "docs" / "accuracy.md"
ROW = re.compile(r"\| ([\w.]+), (\w+) \| (\S+) \| (\S*) \| (.+?) \| (\S*) \|")


def published():
    """Returns a dict from keys of the reference to the largest errors: ours, and the oracle's or None."""
    out = {}
    for name, dtype, ours, _, oracle, _ in ROW.findall(DOCUMENT.read_text()):
        out[f"{name}:{dtype}"] = float(ours), None if "answer" in oracle else float(oracle)
    return out
