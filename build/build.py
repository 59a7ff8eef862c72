#!/usr/bin/env python3
"""The one front door of this repository: `python3 build/build.py --help` says what it does.

Standard library only. This file is kept to what every Python since 2.7 can parse, so that an old one
is told what is wrong; the work is in front_door.py and environment.py beside it.
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
