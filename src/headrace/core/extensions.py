"""Extension points: the kinds of targets, signature schemes and sessions that we have, and those that other packages add.

A package adds a kind by an entry point: its group names the extension point, its name is the name of the kind, and its value leads to
a module or an object with the members of the point's protocol. Our own kinds have the same members, and no package can replace them.

Promises: a kind is imported when it is asked for, and not before. The metadata of the installed packages are read when a name is
asked for that is not ours, or when all names are listed. A package that cannot be used raises PackageMissing with its name and the
reason, and affects no other kind."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from headrace.core.errors import PackageMissing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind")


@dataclass(frozen=True, eq=False, kw_only=True)
class ExtensionPoint(Generic[Kind]):
    """The kinds of one extension point, by name."""

    group: str
    """The group of entry points, for example headrace.relay_targets."""
    noun: str
    """What a kind is called in messages."""
    own: Mapping[str, str]
    """Where our kinds are: a module, or a module and a name in it, separated by a colon."""
    contract: type
    """The protocol that describes a kind."""
    extras: Mapping[str, str] = field(default_factory=dict)
    """The extra of headrace with the packages that one of our kinds needs; by default it is named after the kind."""

    def names(self) -> tuple[str, ...]:
        """The names of all kinds: ours, then those of other packages."""
        return (*self.own, *sorted({entry.name for entry in self._entries()} - {*self.own}))

    def load(self, name: str) -> Kind:
        """The kind of this name. Raises PackageMissing if there is none here, or if its package cannot be used."""
        return self._load_own(name) if name in self.own else self._load_entry(self._find(name))

    def _load_own(self, name: str) -> Kind:
        module, _, attribute = self.own[name].partition(":")
        try:
            loaded = import_module(module)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("headrace"):
                raise
            extra = self.extras.get(name, name)
            raise PackageMissing(
                f"the {self.noun} {name!r} needs the package {error.name}; install: pip install 'headrace[{extra}]'"
            ) from None
        return cast(Kind, getattr(loaded, attribute) if attribute else loaded)

    def _load_entry(self, entry: EntryPoint) -> Kind:
        described = f"the {self.noun} {entry.name!r} of the package {_package(entry)}"
        try:
            kind = entry.load()
        # SystemExit: nothing that a package does while it is imported may end the process.
        except (Exception, SystemExit) as error:
            raise PackageMissing(
                f"{described} cannot be loaded from {entry.value}: {type(error).__name__}: {error}; repair or upgrade the package"
            ) from error
        members = [name for name in (*self.contract.__annotations__, *vars(self.contract)) if not name.startswith("_")]
        if lacking := [name for name in members if not hasattr(kind, name)]:
            raise PackageMissing(
                f"{described} lacks {', '.join(lacking)}, which {self.contract.__name__} asks for; upgrade the package, or headrace"
            )
        return cast(Kind, kind)

    def _find(self, name: str) -> EntryPoint:
        entries = [entry for entry in self._entries() if entry.name == name]
        if len({entry.value for entry in entries}) == 1:
            return entries[0]
        if entries:
            packages = " and ".join(sorted(map(_package, entries)))
            raise PackageMissing(f"the {self.noun} {name!r} is in the packages {packages}; uninstall all but one of them")
        near = get_close_matches(name, self.names(), 1)
        suggestion = f"did you mean {near[0]!r}? " if near else ""
        offered = sorted(f"{entry.name} ({_package(entry)})" for entry in self._entries() if entry.name not in self.own)
        raise PackageMissing(
            f"there is no {self.noun} {name!r}; {suggestion}known are {', '.join(self.own)}; "
            f"installed packages add {', '.join(offered) or 'none'} (entry points of the group {self.group})"
        )

    def _entries(self) -> tuple[EntryPoint, ...]:
        return _read_entries(self.group, tuple(sys.path))


@cache
def _read_entries(group: str, _path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group. Read once for a search path: reading the metadata of all packages takes milliseconds."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "unknown"
