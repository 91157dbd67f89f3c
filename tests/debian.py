"""Programs of Debian's packages that tests start. Installed once where we may; CI may not skip what needs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

# Some servers are in a folder that only root has on its path.
PLACES = f"{os.environ['PATH']}:/usr/sbin"


def install(packages: Sequence[str], present: Sequence[Path | str]) -> None:
    """Installs packages unless every path or program of `present` is there; skips the test with one line if it cannot."""
    with FileLock(Path(tempfile.gettempdir()) / "headrace-apt.lock"):
        if not _all_present(present) and os.geteuid() == 0 and shutil.which("apt-get"):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
                subprocess.run(["apt-get", *words], check=True, stdout=subprocess.DEVNULL, env=environment)
    if _all_present(present):
        return
    names = " ".join(packages)
    if os.environ.get("CI"):
        pytest.fail(f"these tests need the packages {names}, and CI may not skip them")
    pytest.skip(f"skipped: install {names} to run these tests")


def find_program(name: str, *packages: str) -> str:
    """The path of a program, installed from Debian's packages if it is missing. The package defaults to the name."""
    install(packages or [name], [name])
    path = shutil.which(name, path=PLACES)
    assert path is not None
    return path


def _all_present(present: Sequence[Path | str]) -> bool:
    return all(item.exists() if isinstance(item, Path) else shutil.which(item, path=PLACES) for item in present)
