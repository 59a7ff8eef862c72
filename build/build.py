#!/usr/bin/env python3
"""The entry point of this repository's commands; see `python3 build/build.py --help`.

Uses only the standard library. This file has only syntax that every Python since 2.7 can parse, so
that it can report a Python that is too old. The commands are in front_door.py and environment.py.
"""

import sys

if sys.version_info < (3, 11):
    sys.stderr.write(
        "build.py: error: this is Python %d.%d (%s) and JAX needs 3.11 or newer.\n"
        "  Install one (Debian: apt-get install python3.11 python3.11-venv) and run\n"
        "  python3.11 %s\n"
        % (sys.version_info[0], sys.version_info[1], sys.executable, " ".join(sys.argv))
    )
    sys.exit(1)

import front_door

if __name__ == "__main__":
    sys.exit(front_door.main(sys.argv[1:]))
