"""Static files: our own, and the browser libraries that assets.py has fetched."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from headrace.web.console.assets import VENDOR

STATIC = Path(__file__).parent / "static"


@cache
def vendor_files() -> frozenset[str]:
    """The names of the fetched files; looked up once."""
    return frozenset(path.name for path in VENDOR.glob("*.*")) if VENDOR.is_dir() else frozenset()
