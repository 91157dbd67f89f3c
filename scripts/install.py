"""Installs headrace for development, with the versions of constraints.txt, into the environment that runs this script.

The pins are complete, so nothing needs resolving: several pip processes download and install their share of them at the same time.
Then pip installs headrace itself with its extras; it checks the whole set and adds what constraints.txt does not have yet.
`make setup` calls this script."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROCESSES = 4
ALONE = ("pyspark",)
"""Packages that take so long that they get a process of their own: a source distribution of 450 MB."""


def main() -> int:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    running = [subprocess.Popen([*command, "--no-deps", *share], cwd=ROOT) for share in shares(pins, PROCESSES)]
    # A share that failed is not the end: pip tries again below, and says what is wrong.
    for process in running:
        process.wait()
    # pip would compile everything on one core, and the tests of the packages too, which are a third of it.
    compiling = subprocess.Popen(
        [sys.executable, "-m", "compileall", "-q", "-j", "0", "-x", r"/tests?/", sysconfig.get_path("purelib")]
    )
    done = subprocess.run([*command, "-c", "constraints.txt", "-e", ".[dev]"], cwd=ROOT, check=False)
    compiling.wait()
    return done.returncode


def shares(pins: Sequence[str], count: int) -> list[list[str]]:
    """The pins for each process."""
    alone = [[pin] for pin in pins if pin.startswith(ALONE)]
    others = [pin for pin in pins if not pin.startswith(ALONE)]
    return alone + [others[start::count] for start in range(count)]


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
