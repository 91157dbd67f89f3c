"""Files of definitions: YAML with a list per kind, or Python with a variable per list.

Promises: a file is read whole or not at all; an error names the file, the entry and the field."""

from __future__ import annotations

import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headrace.core import HeadraceError, InvalidDefinitionFile
from headrace.definitions.definition import Definition
from headrace.definitions.store import AnyKind, field_names

DEFINITIONS_MAX: Final = 100_000
FILE_LISTS: Final = ("rules", "correlators", "schedules", "relays")
"""The lists that a file may have; a reader of some kinds ignores the lists of the others."""


def load_definitions(path: Path | str, kinds: Sequence[AnyKind]) -> tuple[Definition, ...]:
    """The definitions of these kinds in a file (.yaml, .yml, .py), checked.

    Raises InvalidDefinitionFile, and ConditionError, PatternError or what else a kind's check raises, with a note of the place."""
    path = Path(path)
    if path.suffix not in (".yaml", ".yml", ".py"):
        raise InvalidDefinitionFile(f"{path.name} is neither YAML nor Python; name it .yaml, .yml or .py")
    if not path.is_file():
        raise InvalidDefinitionFile(f"there is no file {path}")
    content = _run_python(path) if path.suffix == ".py" else _read_yaml(path)
    names = [kind.list_name for kind in kinds]
    if not any(name in content for name in names):
        raise InvalidDefinitionFile(f"{path.name} has no list `{'` or `'.join(names)}`; {_form(kinds[0])}")
    return tuple(
        definition
        for kind in kinds
        if kind.list_name in content
        for definition in _read_list(path, kind, content[kind.list_name])
    )


def _form(kind: AnyKind) -> str:
    return f"write `{kind.list_name}:` and below it a list of entries with {kind.usual_fields}"


def _read_yaml(path: Path) -> Mapping[str, object]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidDefinitionFile(f"{path.name} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise InvalidDefinitionFile(
            f"{path.name} has no list `rules`, `correlators`, `schedules` or `relays`; write the name above the list"
        )
    if unknown := sorted(map(str, content.keys() - set(FILE_LISTS))):
        raise InvalidDefinitionFile(f"{path.name}: unknown list {', '.join(unknown)}; known are {', '.join(FILE_LISTS)}")
    return content


def _run_python(path: Path) -> Mapping[str, object]:
    try:
        return runpy.run_path(str(path))
    except Exception as error:  # The file is the user's code: report whatever it raises, and from which file.
        raise InvalidDefinitionFile(f"{path.name} cannot be run: {type(error).__name__}: {error}") from error


def _read_list(path: Path, kind: AnyKind, entries: object) -> list[Definition]:
    if not isinstance(entries, list | tuple):
        raise InvalidDefinitionFile(f"{path.name}: `{kind.list_name}` is not a list; {_form(kind)}")
    if len(entries) > DEFINITIONS_MAX:
        raise InvalidDefinitionFile(f"{path.name} has {len(entries)} {kind.list_name}, at most {DEFINITIONS_MAX} are allowed")
    definitions: list[Definition] = []
    names: set[str] = set()
    for number, entry in enumerate(entries, 1):
        definition = (
            entry if isinstance(entry, kind.definition_type) else _read_entry(f"{path.name}, {kind.noun} {number}", kind, entry)
        )
        if definition.name in names:
            raise InvalidDefinitionFile(f"{path.name}: {kind.noun} {definition.name!r} is there twice; give one another name")
        names.add(definition.name)
        try:
            kind.check(definition)
        except HeadraceError as error:
            error.add_note(f"in {path.name}, {kind.noun} {definition.name!r}")
            raise
        definitions.append(definition)
    return definitions


def _read_entry(place: str, kind: AnyKind, entry: object) -> Definition:
    if not isinstance(entry, dict):
        raise InvalidDefinitionFile(
            f"{place}: not a {kind.definition_type.__name__} and not a mapping of names to values; {_form(kind)}"
        )
    place = f"{place} ({entry.get('name')})"
    known = field_names(kind)
    if unknown := sorted(map(str, entry.keys() - set(known))):
        raise InvalidDefinitionFile(f"{place}: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    if missing := [field.name for field in kind.fields if field.is_required and field.name not in entry]:
        raise InvalidDefinitionFile(f"{place}: missing required field `{missing[0]}`")
    values: dict[str, object] = {}
    present = [field for field in kind.fields if field.name in entry]
    try:
        for field in present:
            values[field.name] = field.from_entry(entry[field.name])
        definition: Definition = kind.definition_type(**values)
    except msgspec.ValidationError as error:
        raise InvalidDefinitionFile(f"{place}: {field.name}: {error}") from None
    except HeadraceError as error:
        error.add_note(f"in {place}")
        raise
    return definition
