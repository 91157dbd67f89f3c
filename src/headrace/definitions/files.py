"""Definitions kept in a file: YAML with a list of them, or Python with a variable of the list's name.

Promises: a file is taken whole or not at all; what is wrong is told with its name, and nothing is written."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import yaml

from headrace.core import BadRuleFile, HeadraceError
from headrace.definitions.definition import Definition, names_of

DEFINITIONS_MAX = 100_000

Written = TypeVar("Written", bound=Definition)


@dataclass(frozen=True, kw_only=True)
class FileKind(Generic[Written]):
    """How one kind of definition stands in a file, in a list named after its noun."""

    noun: str
    type: type[Written]
    usual: str
    """The fields that an entry usually has, told to whoever wrote none."""
    convert: Callable[[Mapping[str, object]], Written]
    """Makes a definition of an entry. May raise msgspec.ValidationError."""
    check: Callable[[Written], object]
    """Raises where the text in a definition is wrong."""

    def load(self, path: Path | str) -> tuple[Written, ...]:
        """The definitions of a file, checked. Raises BadRuleFile, and what `check` raises with a note of the place."""
        path = Path(path)
        read = {".yaml": self._from_yaml, ".yml": self._from_yaml, ".py": self._from_python}.get(path.suffix)
        if read is None:
            raise BadRuleFile(f"{path.name} is neither YAML nor Python; name it .yaml, .yml or .py")
        if not path.is_file():
            raise BadRuleFile(f"there is no file {path}")
        found = tuple(read(path))
        self._check_all(path.name, found)
        return found

    def _from_yaml(self, path: Path) -> Sequence[Written]:
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise BadRuleFile(f"{path.name} is not YAML: {error}") from None
        listed = content.get(f"{self.noun}s") if isinstance(content, dict) else None
        if not isinstance(listed, list):
            room = self.type.__module__.rpartition(".")[0]
            raise BadRuleFile(f"{path.name} has no list `{self.noun}s` of {room}.{self.type.__name__}")
        return [self._entry(f"{path.name}, {self.noun} {number}", entry) for number, entry in enumerate(listed, 1)]

    def _entry(self, place: str, entry: object) -> Written:
        if not isinstance(entry, dict):
            raise BadRuleFile(f"{place}: not a mapping of names to values")
        place = f"{place} ({entry.get('name')})"
        known = names_of(self.type)
        if unknown := sorted(map(str, set(entry) - set(known))):
            raise BadRuleFile(f"{place}: unknown {', '.join(unknown)}; known are {', '.join(known)}")
        try:
            return self.convert(entry)
        except msgspec.ValidationError as error:
            raise BadRuleFile(f"{place}: {error}") from None

    def _from_python(self, path: Path) -> Sequence[Written]:
        try:
            found = runpy.run_path(str(path)).get(f"{self.noun}s")
        except Exception as error:  # The file is the user's code: whatever it raises is told, with where it came from.
            raise BadRuleFile(f"{path.name} cannot be run: {type(error).__name__}: {error}") from error
        if not isinstance(found, list | tuple) or not all(isinstance(one, self.type) for one in found):
            room = self.type.__module__.rpartition(".")[0]
            raise BadRuleFile(f"{path.name} has no list `{self.noun}s` of {room}.{self.type.__name__}")
        return found

    def _check_all(self, file: str, found: Sequence[Written]) -> None:
        if len(found) > DEFINITIONS_MAX:
            raise BadRuleFile(f"{file} has {len(found)} {self.noun}s, at most {DEFINITIONS_MAX} are allowed")
        seen: set[str] = set()
        for one in found:
            if one.name in seen:
                raise BadRuleFile(f"{file}: {self.noun} {one.name!r} is there twice; give one another name")
            seen.add(one.name)
            try:
                self.check(one)
            except HeadraceError as error:
                error.add_note(f"in {file}, {self.noun} {one.name!r}")
                raise
