"""The reference build's interpreter under Bazel: Python, with the packages of this target and no others."""

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    packages = [path for path in sys.path if path.endswith("site-packages")]
    # the folder of the standard library's own third-party packages is not meant
    packages = [path for path in packages if not path.startswith(sys.base_prefix)]
    os.environ["PYTHONPATH"] = os.pathsep.join(packages)
    os.environ.pop("PYTHONSAFEPATH", None)  # Bazel's, not the caller's
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
