"""Settings of the programs that use published libraries, which `build.py test --libraries` provides."""

import importlib.util
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).absolute().parent

if importlib.util.find_spec("flax") is None:
    collect_ignore_glob = ["*"]
else:
    sys.path.insert(0, str(HERE.parent))
    # Some libraries ask which jax is installed; a checkout is not.
    from jax.version import __version__

    _installed = tempfile.TemporaryDirectory()
    _metadata = Path(_installed.name, f"jax-{__version__}.dist-info", "METADATA")
    _metadata.parent.mkdir()
    _metadata.write_text(f"Metadata-Version: 2.1\nName: jax\nVersion: {__version__}\n")
    sys.path.append(_installed.name)

    def pytest_unconfigure():
        _installed.cleanup()


def pytest_configure(config):
    # The libraries' warnings are theirs.
    config.addinivalue_line("filterwarnings", "default")
