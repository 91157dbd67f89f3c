"""Building the package from a clean clone, checking what is in it, and trying it in a fresh environment.

Used by scripts/release_check.py and by tests/package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.metadata import Metadata

from headrace.web.console import assets

ROOT = Path(__file__).parents[1]
CONSTRAINTS = str(ROOT / "constraints.txt")
VENDOR = "headrace/web/console/vendor"
VENDOR_FILES = ("htmx.js", "htmx.LICENSE.txt", "uplot.js", "uplot.css", "uplot.LICENSE.txt", "versions.txt")


class PackageError(Exception):
    """What is wrong with the package."""


@dataclass(frozen=True)
class Distribution:
    """The built files."""

    wheel: Path
    sdist: Path


def run(command: list[str], *, cwd: Path, timeout_s: float = 900) -> str:
    """Runs a command without what this environment would lend it; returns its output."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "PYTHON", "DATABASE_URL"))
    }
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment)
    if done.returncode:
        raise PackageError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def build(folder: Path) -> Distribution:
    """Builds the last commit: the sdist from a clean clone, and the wheel from the sdist."""
    clone = folder / "clone"
    run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], cwd=folder)
    run([sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(clone)], cwd=folder)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return Distribution(wheel, sdist)


def check_contents(distribution: Distribution) -> int:
    """Raises PackageError if the wheel or the sdist lacks a file; returns the number of files in the wheel."""
    names = run(["git", "ls-files", "src"], cwd=ROOT).splitlines()
    wanted = {name.removeprefix("src/") for name in names} | {f"{VENDOR}/{name}" for name in VENDOR_FILES}
    with zipfile.ZipFile(distribution.wheel) as archive:
        inside = set(archive.namelist())
    with tarfile.open(distribution.sdist) as archive:
        in_sdist = {name.partition("/src/")[2] for name in archive.getnames() if "/src/" in name}
    packages = {name.partition("/")[0] for name in wanted}
    foreign = {name for name in inside if name.partition("/")[0] not in packages and ".dist-info/" not in name}
    foreign |= {name for name in inside if "__pycache__" in name}
    problems = {
        "missing in the wheel": wanted - inside,
        "missing in the sdist": wanted - in_sdist,
        "not ours": foreign,
        "no licence": set() if any(name.endswith("licenses/LICENSE") for name in inside) else {"LICENSE"},
    }
    if any(problems.values()):
        raise PackageError("; ".join(f"{what}: {', '.join(sorted(found)[:9])}" for what, found in problems.items() if found))
    check_vendor(distribution)
    return len(inside)


def check_vendor(distribution: Distribution) -> None:
    """Raises PackageError if the browser libraries in the wheel or the sdist are not the pinned ones."""
    with zipfile.ZipFile(distribution.wheel) as archive:
        names = [name for name in archive.namelist() if f"{VENDOR}/" in name and not name.endswith("/")]
        in_wheel = {name.partition(f"{VENDOR}/")[2]: archive.read(name) for name in names}
    with tarfile.open(distribution.sdist) as archive:
        members = [member for member in archive.getmembers() if f"src/{VENDOR}/" in member.name and member.isfile()]
        in_sdist = {member.name.partition(f"{VENDOR}/")[2]: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]
    try:
        assets.check_contents(in_wheel, distribution.wheel.name)
        assets.check_contents(in_sdist, distribution.sdist.name)
    except assets.AssetError as error:
        raise PackageError(str(error)) from None


def read_metadata(distribution: Distribution) -> Metadata:
    """The wheel's metadata; raises what packaging finds wrong with them."""
    with zipfile.ZipFile(distribution.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Metadata.from_email(archive.read(name), validate=True)


def collect_wheels(wheel: Path, folder: Path, extras: Iterable[str]) -> Path:
    """Puts all wheels that these extras need into a folder, so that many environments can be filled without resolving or building."""
    requirement = f"{wheel}[{','.join(extras)}]"
    run([*_pip(sys.executable), "wheel", "-c", CONSTRAINTS, "--wheel-dir", str(folder), requirement], cwd=folder.parent)
    return folder


def install(wheel: Path, folder: Path, *, extras: str = "", python: str = sys.executable, wheels: Path | None = None) -> Path:
    """Installs the wheel with extras, separated by commas, into an environment, which is created if it does not exist; returns its
    folder of programs. `wheels` is a folder with everything it needs; without it, pip asks the configured index."""
    if not folder.exists():
        run([python, "-m", "venv", *(["--without-pip"] if wheels else []), str(folder)], cwd=folder.parent)
    inside = str(folder / "bin/python")
    pip = [*_pip(sys.executable), "--python", inside] if wheels else _pip(inside)
    source = ["--no-index", "--find-links", str(wheels)] if wheels else ["-c", CONSTRAINTS]
    requirement = f"{wheel}[{extras}]" if extras else str(wheel)
    run([*pip, "install", "--no-compile", *source, requirement], cwd=folder)
    return folder / "bin"


def find_python(version: str) -> str | None:
    """A Python of this version, from pyenv or the PATH."""
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
    return str(pyenv[-1]) if pyenv else shutil.which(f"python{version}")


def _pip(python: str) -> list[str]:
    return [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def try_demo(programs: Path) -> int:
    """Runs the short demo in an empty folder; returns the number of checks that hold."""
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
        # Started by root, PostgreSQL runs as another user, who must be able to read its folder.
        Path(folder).chmod(0o755)
        result = json.loads(run([str(programs / "headrace"), "demo", "--short", "--json"], cwd=Path(folder), timeout_s=300))
    if not result["adds_up"]:
        raise PackageError(f"the numbers of the demo do not add up: {result['checks']}")
    return len(result["checks"])
