"""The plugin for CUDA that PyPI has, jax-cuda13-pjrt with jax-cuda13-plugin, on this jax and without a GPU.

Only Bazel runs these tests: it brings the packages, which are large.
"""

import json
import os
import re
import subprocess
import sys

PROGRAM = """
import json, sys, warnings
import jax
from jax._src.xla_bridge import registry

def outcome(f):
    try:
        return f()
    except RuntimeError as e:
        return str(e)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    platforms = outcome(lambda: [d.platform for d in jax.devices()])
registration = registry._backend_factories.get("cuda")
print(json.dumps(dict(
    plugins=[m for m in sys.modules if m.startswith("jax_plugins.")],
    platforms=platforms,
    warnings=[str(w.message) for w in caught],
    loaded=registration is not None and registration.c_api is not None,
    cuda=outcome(lambda: jax.devices("cuda")),
    sum=outcome(lambda: int(jax.numpy.arange(5).sum())),
)))
"""


def run(platforms, **variables):
    variables |= {
        "JAX_PLATFORMS": platforms,
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_NUM_CPU_DEVICES": "1",
    }
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(result.stdout)
    assert found["plugins"] == ["jax_plugins.xla_cuda13"]  # and not ours, which would replace it
    return found


def test_a_plugin_without_its_libraries():
    """It says what it misses, if the system does not have it; programs run on the CPU."""
    found = run("")
    assert found["platforms"] == ["cpu"] and found["sum"] == 10
    (warning,) = found["warnings"]
    assert re.search("xla_cuda13 could not be initialized|initialize backend 'cuda'", warning)


def test_a_library_that_finds_no_gpu():
    """Without its check of the libraries, the plugin is registered and its library starts."""
    found = run("", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1")
    assert found["loaded"]
    assert found["platforms"] == ["cpu"] and found["sum"] == 10
    (warning,) = found["warnings"]
    assert "Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU" in warning
    assert "Backend 'cuda' failed to initialize: FAILED_PRECONDITION" in found["cuda"]


def test_a_platform_that_is_asked_for():
    found = run("cuda", JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1")
    assert "Unable to initialize backend 'cuda': FAILED_PRECONDITION" in found["platforms"]
    found = run("cuda")
    assert "Unable to initialize backend 'cuda'" in found["platforms"]


def test_the_cpu_alone():
    found = run("cpu")
    assert found["loaded"] and found["warnings"] == []
    assert found["platforms"] == ["cpu"] and found["sum"] == 10
    assert "Unknown backend cuda" in found["cuda"]
