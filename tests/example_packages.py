"""The example packages, installed by pip as a user would: into a folder of their own, from which tests import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PACKAGES = ("relay_target_file", "hook_signature_slack", "session_records")


@pytest.fixture(scope="session")
def installed_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the packages. It is not on the search path."""
    folder = tmp_path_factory.mktemp("packages")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--target", str(folder)]
    sources = [str(EXAMPLES / name) for name in PACKAGES]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *sources], check=True, timeout=120)
    return folder


@pytest.fixture
def example_packages(installed_packages: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages as if they were in the environment of the test's process."""
    monkeypatch.syspath_prepend(str(installed_packages))
    return installed_packages


def add_entry_point(folder: Path, group: str, name: str, value: str, *, package: str) -> None:
    """Puts the metadata of a package into a folder, as pip does."""
    metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
