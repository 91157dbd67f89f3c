"""GitHub's webhook examples: the npm package is downloaded into a temporary folder, never committed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from filelock import FileLock

PACKAGE = "@octokit/webhooks-examples@7.6.1"


def github_examples() -> dict[str, list[str]]:
    """The JSON texts of the payloads, by event. Skips the test where npm is missing, except in CI."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("npm downloads GitHub's webhook examples, and CI may not skip these tests")
        pytest.skip("npm is not installed: it downloads GitHub's webhook examples")
    # Several test processes need it; the first downloads.
    folder = Path(tempfile.gettempdir()) / f"headrace-{PACKAGE.rpartition('/')[2]}"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            _download(npm, folder)
    (file,) = folder.glob("package/api.github.com/index.json")
    return {entry["name"]: [json.dumps(example) for example in entry["examples"]] for entry in json.loads(file.read_text())}


def _download(npm: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        words = [npm, "pack", PACKAGE, "--silent"]
        packed = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=120, check=True)
        unpacked = Path(place) / "unpacked"
        with tarfile.open(Path(place) / packed.stdout.strip().splitlines()[-1]) as archive:
            archive.extractall(unpacked, filter="data")
        unpacked.rename(folder)
