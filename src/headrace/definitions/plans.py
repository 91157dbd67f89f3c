"""Plans: what has to change so that the database has the definitions of a file, shown first and applied then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from headrace.definitions.definition import Definition, names_of


class Sourced(Protocol):
    """The state of a definition that knows where it came from."""

    @property
    def source(self) -> str: ...


Written = TypeVar("Written", bound=Definition)
State = TypeVar("State", bound=Sourced)


@dataclass(frozen=True)
class Change(Generic[Written, State]):
    """One that is there with another definition, and the names of what differs; none where only the source does."""

    before: State
    after: Written
    differs: tuple[str, ...]


@dataclass(frozen=True)
class Plan(Generic[Written, State]):
    """What applying it will do. `drop` holds only what came from the same source before."""

    create: tuple[Written, ...]
    change: tuple[Change[Written, State], ...]
    drop: tuple[State, ...]
    same: tuple[State, ...]
    source: str
    namespace: str | None

    @property
    def empty(self) -> bool:
        return not (self.create or self.change or self.drop)


def compare(
    wanted: Sequence[Written], there: Sequence[tuple[Written, State]], *, source: str, namespace: str | None
) -> Plan[Written, State]:
    """What is wanted beside what is there. One of another source is taken over if its name is wanted, else left alone."""
    known = {before.name: (before, state) for before, state in there}
    names = {one.name for one in wanted}
    meant = [Change(known[one.name][1], one, _differs(known[one.name][0], one)) for one in wanted if one.name in known]
    kept = [not one.differs and one.before.source == source for one in meant]
    return Plan(
        create=tuple(one for one in wanted if one.name not in known),
        change=tuple(one for one, same in zip(meant, kept, strict=True) if not same),
        drop=tuple(state for before, state in there if state.source == source and before.name not in names),
        same=tuple(one.before for one, same in zip(meant, kept, strict=True) if same),
        source=source,
        namespace=namespace,
    )


def _differs(before: Definition, after: Definition) -> tuple[str, ...]:
    return tuple(name for name in names_of(after) if getattr(before, name) != getattr(after, name))
