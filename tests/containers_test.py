"""ci/containers: recipes that name what they are made of. ci/containers.sh builds the Debian ones."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parent.parent
CONTAINERS = ROOT / "ci" / "containers"
DEBIAN = sorted(path.stem for path in CONTAINERS.glob("*.debian"))
FILES = sorted(CONTAINERS.glob("*.Containerfile"))
INSTRUCTIONS = {"ARG", "CMD", "COPY", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR"}


def build(*arguments, **variables):
    command = ["bash", str(CONTAINERS / "build.sh"), *arguments]
    environment = {"PATH": "/usr/bin:/bin"} | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_there_is_one_for_each_runner():
    assert DEBIAN == ["cpu", "cuda13", "tpu"]
    assert [path.stem for path in FILES] == ["rocm7"]
    text = (CONTAINERS / "README.md").read_text()
    for path in (*FILES, *CONTAINERS.glob("*.debian")):
        assert f"`{path.name}`" in text


@pytest.mark.parametrize("runner", DEBIAN)
def test_lists_of_packages(runner):
    lines = (CONTAINERS / f"{runner}.debian").read_text().splitlines()
    assert lines[0].startswith("# ")
    packages = [line for line in lines[1:] if "=" not in line]
    assert packages == sorted(set(packages))
    assert {"ca-certificates", "g++", "git", "python3", "python3-dev", "python3-venv"} <= {
        *packages
    }
    for line in lines[1:]:
        assert re.fullmatch(r"[a-z0-9][a-z0-9+.-]*|[A-Z_]+=[^\s'\"]+", line), line
    changes = build("--changes", runner).stdout.split()
    assert changes[:3] == ["--change", "ENV", "LANG=C.UTF-8"]
    assert len(changes) == 3 * sum("=" in line for line in lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_container_files(path):
    """Instructions that there are, on bases that have a digest or that the caller names with one."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.M)
    lines = text.replace("\\\n", " ").splitlines()
    words = [line.split(maxsplit=1) for line in lines if line.strip()]
    assert {first for first, _ in words} <= INSTRUCTIONS
    named = {rest for first, rest in words if first == "ARG"}  # with no value of their own
    for base in (rest for first, rest in words if first == "FROM"):
        assert re.search(r"@sha256:[0-9a-f]{64}$", base) or base.strip("${}") in named, base


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rocm7"], "has no digest"),
        (["rocm7", "--base=docker.io/rocm/dev-ubuntu-24.04:7.0"], "has no digest"),
        (["rocm7", "--base=x@sha256:abc"], "has no digest"),
        (["rocm7", "x"], "got x"),
        (["cpu"], "say into which file"),
        (["cpu", "root.tgz"], "ends in .tar"),
        (["--changes", "rocm7"], "there is no rocm7.debian"),
        (["gpu"], "ci/containers/build.sh cpu|cuda13|tpu FILE.tar"),
    ],
)
def test_what_is_refused(arguments, message):
    result = build(*arguments)
    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert result.stdout == ""


@pytest.fixture
def docker(tmp_path):
    """A PATH with a Docker that prints what it is asked for."""
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("image", "has_one"),
    [
        ("", False),
        ("rocm/dev-ubuntu-24.04:7.0", False),
        ("rocm/dev-ubuntu-24.04@sha256:abc", False),
        (f"rocm/dev-ubuntu-24.04@{DIGEST}", True),
        (DIGEST, True),  # of one that was made here
    ],
)
def test_the_lane_of_rocm_runs_no_image_without_a_digest(docker, tmp_path, image, has_one):
    variables = {"PATH": docker, "XDG_CACHE_HOME": str(tmp_path), "ROCM_IMAGE": image}
    command = ["bash", str(ROOT / "ci" / "rocm_container.sh")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if has_one:
        assert image in done.stdout.splitlines() or "there is no /dev/kfd: " in done.stderr
    else:
        assert done.returncode == 1 and f"ROCM_IMAGE={image} has no digest" in done.stderr


def test_the_digest_is_what_is_built_on(docker):
    base = "docker.io/rocm/dev-ubuntu-24.04@sha256:" + "0a" * 32
    result = build("rocm7", f"--base={base}", "--tag=mine", PATH=docker)
    said = result.stdout.splitlines()
    assert said[:5] == ["build", "--build-arg", f"BASE={base}", "--tag", "mine"]
    assert said[-2:] == [str(CONTAINERS / "rocm7.Containerfile"), str(CONTAINERS)]
