"""Extension points: our kinds first, other packages by their entry points, and a clear error for a package that cannot be used."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Protocol

import pytest

from headrace.core import ExtensionPoint, PackageMissing
from tests.example_packages import add_entry_point


class Shape(Protocol):
    """A kind of the tests."""

    corners: int

    def area(self, width: float) -> float: ...


POINT: ExtensionPoint[Shape] = ExtensionPoint(
    group="headrace.shapes",
    noun="shape",
    contract=Shape,
    own={"square": "tests.core.shape_kinds:SQUARE", "lost": "tests.core.shape_kinds_that_import_a_missing_package"},
)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def offer(packages: Path, name: str, code: str, *, package: str | None = None) -> None:
    """A package with a module of this code, whose object KIND is a kind."""
    package = package or f"shape-{name}"
    module = package.replace("-", "_")
    (packages / f"{module}.py").write_text(code)
    add_entry_point(packages, "headrace.shapes", name, f"{module}:KIND", package=package)


CIRCLE = "class Kind:\n    corners = 0\n    def area(self, width): return width\nKIND = Kind()\n"


def test_our_kinds_are_found_without_reading_any_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: pytest.fail("metadata were read"))
    assert POINT.load("square").area(3) == 9


def test_package_adds_a_kind(packages: Path) -> None:
    offer(packages, "circle", CIRCLE)
    assert POINT.load("circle").corners == 0
    assert POINT.names() == ("square", "lost", "circle")


def test_no_package_replaces_a_kind_of_ours(packages: Path) -> None:
    offer(packages, "square", CIRCLE)
    assert POINT.load("square").corners == 4
    assert POINT.names() == ("square", "lost")


def test_unknown_kind_names_the_nearest_one() -> None:
    message = r"there is no shape 'sqare'; did you mean 'square'\? known are square, lost; installed packages add none"
    with pytest.raises(PackageMissing, match=message):
        POINT.load("sqare")


def test_unknown_kind_names_what_packages_add(packages: Path) -> None:
    offer(packages, "circle", CIRCLE, package="round-things")
    message = r"did you mean 'circle'\? .* installed packages add circle \(round-things\) .*headrace\.shapes"
    with pytest.raises(PackageMissing, match=message):
        POINT.load("cirle")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import sys\nsys.exit(1)", "SystemExit: 1"),
        ("KIND: int", "AttributeError: .*has no attribute 'KIND'"),
        ("class Kind: pass\nKIND = Kind()", "lacks corners, area, which Shape asks for"),
    ],
    ids=["import", "error", "exit", "name", "contract"],
)
def test_broken_package_is_named_with_the_reason_and_affects_no_other(packages: Path, code: str, reason: str) -> None:
    offer(packages, "broken", code, package=f"broken-{abs(hash(code))}")
    offer(packages, "circle", CIRCLE, package=f"circle-{abs(hash(code))}")
    with pytest.raises(PackageMissing, match=rf"the shape 'broken' of the package broken-\d+ .*{reason}"):
        POINT.load("broken")
    assert POINT.load("circle").corners == 0


def test_kind_of_two_packages_is_an_error(packages: Path) -> None:
    for package in ("one", "two"):
        offer(packages, "circle", CIRCLE, package=f"{package}-circles")
    with pytest.raises(PackageMissing, match="in the packages one-circles and two-circles; uninstall"):
        POINT.load("circle")


def test_missing_package_of_our_own_kind_names_the_extra() -> None:
    with pytest.raises(PackageMissing, match=r"needs the package no_such_package; install: pip install 'headrace\[lost\]'"):
        POINT.load("lost")
