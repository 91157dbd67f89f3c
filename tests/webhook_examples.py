"""GitHub's webhook examples: the npm package is downloaded into a folder of the test, never committed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

PACKAGE = "@octokit/webhooks-examples@7.6.1"


def github_examples(folder: Path) -> dict[str, list[str]]:
    """The JSON texts of the payloads, by event. Skips the test where npm is missing, except in CI."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("npm downloads GitHub's webhook examples, and CI may not skip these tests")
        pytest.skip("npm is not installed: it downloads GitHub's webhook examples")
    words = [npm, "pack", PACKAGE, "--silent"]
    packed = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    with tarfile.open(folder / packed.stdout.strip().splitlines()[-1]) as archive:
        archive.extractall(folder, filter="data")
    (file,) = folder.glob("package/api.github.com/index.json")
    return {entry["name"]: [json.dumps(example) for example in entry["examples"]] for entry in json.loads(file.read_text())}
