"""Words of the pages of events: the parameters of their address, and answers of conditions as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from headrace.lang.condition import ClauseValue, ConditionError, parse
from headrace.web.console.tables import Row
from headrace.web.console.view import View

LIMITS = (50, 100, 200, 500)


@dataclass(frozen=True)
class AnswerText:
    """true, false or unknown, and how it looks."""

    text: str
    kind: str


@dataclass(frozen=True)
class Query:
    """What the address of the page of events asks for."""

    topic: str
    types: tuple[str, ...]
    key: str
    where: str
    match: str
    """`all` shows also the events for which the condition is not true."""
    start: str
    """A position or time: oldest first from there on. Empty: newest first."""
    before: str
    limit: int
    show: str
    """The event that is open: its position; shard/position where there are several shards."""

    @classmethod
    def of(cls, view: View) -> Query:
        """The query of a request."""
        get = view.query.get
        types = tuple(dict.fromkeys(name for name in get("type", "").replace(",", " ").split() if name))
        limit = get("limit", "")
        return cls(
            topic=get("topic", ""),
            types=types,
            key=get("key", ""),
            where=get("where", "").strip(),
            match="all" if get("match") == "all" else "",
            start=get("from", "").strip(),
            before=get("before", "").strip(),
            limit=int(limit) if limit in map(str, LIMITS) else LIMITS[0],
            show=get("show", ""),
        )


def answer_text(answer: bool | None) -> AnswerText:
    if answer is None:
        return AnswerText("unknown", "warn")
    return AnswerText("true", "good") if answer else AnswerText("false", "bad")


def clause_rows(clause: ClauseValue) -> list[Row]:
    """The clauses of a condition from the outside in, with the depth of each."""
    return list(_clause_rows(clause, 0))


def _clause_rows(clause: ClauseValue, depth: int) -> Iterator[Row]:
    is_answer = is_clause(clause.text)
    kind = {"true": "good", "false": "bad", "unknown": "warn"}.get(clause.value, "") if is_answer else ""
    yield {"text": clause.text, "value": clause.value, "depth": min(depth, 8), "kind": kind, "is_answer": is_answer}
    for part in clause.parts:
        yield from _clause_rows(part, depth + 1)


def failing_clause(clause: ClauseValue) -> ClauseValue | None:
    """The innermost clause because of which a condition is not true; None if it is true.

    Where all clauses of an `and` or `or` fail, it is the whole."""
    if clause.value == "true":
        return None
    clauses = [part for part in clause.parts if is_clause(part.text)]
    failing = [part for part in clauses if part.value != "true"]
    if not failing or (len(failing) > 1 and len(failing) == len(clauses)):
        return clause
    return failing_clause(failing[0])


@lru_cache(maxsize=2_000)
def is_clause(text: str) -> bool:
    """True for what is true, false or unknown; False for an operand."""
    try:
        parse(text)
    except ConditionError:
        return False
    return True
