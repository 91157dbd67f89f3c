"""Lazy names: what a package lists, imported when it is used, so that importing the package needs no optional library and costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

__all__ = ["lazy_names"]


def lazy_names(package: str, *modules: str) -> Callable[[str], object]:
    """The `__getattr__` of a package: imports these modules of it, one after the other, until one has the name.

    Type checkers take the names from the imports below `if TYPE_CHECKING`, which are the one list of them."""

    def load(name: str) -> object:
        # Python asks a package for names such as __path__, and for a module of it before it imports that: no reason to import others.
        for module in () if name.startswith("_") or name in modules else modules:
            names = vars(import_module(f"{package}.{module}"))
            if name in names:
                return names[name]
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load
