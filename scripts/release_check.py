"""The release checklist: walks every step and ticks it off, or says what to do. `make release-check` calls it.

It changes nothing. After it, tag the commit as v and the version, and upload the files of the folder that --keep names."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

from headrace.web.console import assets
from scripts import package, site
from scripts.package import ROOT, Distribution, PackageError

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@dataclass(frozen=True)
class Step:
    """A line of the list, checked."""

    name: str
    ok: bool
    result: str
    seconds: float


@dataclass
class Checklist:
    """The steps. A step that failed does not keep the others from being checked."""

    folder: Path
    is_draft: bool
    steps: list[Step] = field(default_factory=list)
    distribution: Distribution | None = None

    def walk(self) -> bool:
        self._check("the tree is clean", self._clean_tree)
        self._check("version, changes and citation agree", self._version)
        self._check("reference pages are fresh", self._reference)
        self._check("the site has no broken link", self._site)
        self._check("the console's browser libraries are the pinned ones", self._libraries)
        self._check("wheel and sdist build from a clean clone", self._build)
        self._check("the metadata are valid", self._metadata)
        self._check("wheel and sdist hold every file", self._contents)
        self._check("the wheel runs the short demo in a fresh environment", self._demo)
        return all(step.ok for step in self.steps)

    def _check(self, name: str, act: Callable[[], str]) -> None:
        start = time.monotonic()
        try:
            ok, result = True, act()
        except (PackageError, SystemExit, ValueError, ExceptionGroup, subprocess.SubprocessError) as error:
            ok, result = False, str(error)
        self.steps.append(Step(name, ok, result, round(time.monotonic() - start, 1)))
        sys.stderr.write(f"{'✓' if ok else '✗'} {name} ({self.steps[-1].seconds} s): {result}\n")

    def _clean_tree(self) -> str:
        changes = package.run(["git", "status", "--porcelain"], cwd=ROOT).splitlines()
        if changes and not self.is_draft:
            raise PackageError(f"{len(changes)} files are not committed, first {changes[0].strip()}; commit them, or use --draft")
        return package.run(["git", "describe", "--always", "--dirty"], cwd=ROOT).strip()

    def _version(self) -> str:
        heading = re.search(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
        if heading is None or heading[1] != VERSION:
            raise PackageError(f"CHANGELOG.md does not begin with ## {VERSION} (date)")
        citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
        if f"\nversion: {VERSION}\n" not in citation:
            raise PackageError(f"CITATION.cff does not say version: {VERSION}")
        if not self.is_draft:
            try:
                date.fromisoformat(heading[2])
            except ValueError:
                raise PackageError(
                    f"CHANGELOG.md says {VERSION} ({heading[2]}); write the date of the release, or use --draft"
                ) from None
            tags, tags_here = (package.run(["git", "tag", *words], cwd=ROOT).split() for words in ([], ["--points-at", "HEAD"]))
            if f"v{VERSION}" in tags and f"v{VERSION}" not in tags_here:
                raise PackageError(f"v{VERSION} is the tag of another commit; raise the version in pyproject.toml")
        return VERSION

    def _reference(self) -> str:
        package.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT)
        return "docs/generate.py has nothing to write"

    def _site(self) -> str:
        pages = self.folder / "site"
        site.build(pages)
        if problems := site.broken_links(pages):
            raise PackageError("; ".join(problems))
        return f"{sum(1 for _ in pages.rglob('*.html'))} pages"

    def _libraries(self) -> str:
        if not assets.is_complete():
            raise PackageError("they are missing; run: python -m headrace.web.console.assets")
        try:
            assets.check_files()
        except assets.AssetError as error:
            raise PackageError(str(error)) from None
        return ", ".join(f"{library.package} {library.version}" for library in assets.LIBRARIES)

    def _build(self) -> str:
        self.distribution = package.build(self.folder)
        return ", ".join(
            f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in (self.distribution.wheel, self.distribution.sdist)
        )

    def _built(self) -> Distribution:
        if self.distribution is None:
            raise PackageError("there is no wheel; see the step above")
        return self.distribution

    def _metadata(self) -> str:
        metadata = package.read_metadata(self._built())
        if str(metadata.version) != VERSION or metadata.license_expression != "Apache-2.0" or not metadata.requires_python:
            raise PackageError(
                f"version {metadata.version}, licence {metadata.license_expression}, Python {metadata.requires_python}"
            )
        return f"metadata {metadata.metadata_version}, {metadata.license_expression}, {len(metadata.provides_extra or [])} extras"

    def _contents(self) -> str:
        return f"{package.check_contents(self._built())} files"

    def _demo(self) -> str:
        programs = package.install(self._built().wheel, self.folder / "fresh", extras="demo")
        version = package.run([str(programs / "headrace"), "--version"], cwd=self.folder).strip()
        if VERSION not in version:
            raise PackageError(f"headrace --version prints {version}")
        return f"{package.try_demo(programs)} checks hold"


def main() -> int:
    parser = argparse.ArgumentParser(description="Walks the release checklist.")
    parser.add_argument(
        "--draft", action="store_true", help="Uncommitted files, a missing date and an existing tag are no errors."
    )
    parser.add_argument("--json", action="store_true", help="Print the steps as JSON to standard output.")
    parser.add_argument("--keep", type=Path, help="Keep the built files in this folder, which must be empty or new.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-release-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            parser.error(f"{folder} is not empty")
        checklist = Checklist(folder.resolve(), options.draft)
        ok = checklist.walk()
    if options.json:
        json.dump({"version": VERSION, "ok": ok, "steps": [asdict(step) for step in checklist.steps]}, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        sys.stderr.write(verdict(checklist.steps) + "\n")
    return 0 if ok else 1


def verdict(steps: Sequence[Step]) -> str:
    """Ready, with what remains to be done by hand; or what is left to do first."""
    left = [f"  - {step.name}: {step.result}" for step in steps if not step.ok]
    if left:
        return "\n".join([f"{VERSION} is not ready. Left to do:", *left])
    return f"{VERSION} is ready: git tag v{VERSION}, then upload wheel and sdist (--keep leaves them in a folder)"


if __name__ == "__main__":
    sys.exit(main())
