"""The README: its examples run, its commands are there."""

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
README = ROOT / "README.md"


def test_examples():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failures, tried = doctest.testfile(str(README), module_relative=False, optionflags=flags)
    assert tried > 10
    assert failures == 0


def test_commands_name_what_exists():
    commands = re.findall(r"^python3 (\S+) (?:run (\S+))?", README.read_text(), re.M)
    assert len(commands) == 3
    for path in filter(None, (path for command in commands for path in command)):
        assert (ROOT / path).is_file()
