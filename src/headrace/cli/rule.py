"""`headrace rule`: rules turn events into actions."""

from __future__ import annotations

from typing import Annotated

import msgspec
from typer import Argument

from headrace.cli.definition import DefinitionGroup
from headrace.cli.options import EventId
from headrace.cli.output import Column, table
from headrace.cli.session import Session, command
from headrace.core import UnknownEvent
from headrace.observe.history import explain_rule
from headrace.rules import RULES

group = DefinitionGroup(
    kind=RULES,
    help="Rules: on an event of a type, if a condition is true, send an action.",
    listed=("topic", "event_type", "condition", "action", "timing"),
    texts={
        "create": """An invalid condition is rejected with its line and column.

        Example: headrace rule create fast --topic cars --event-type NEW_CAR --action NOTIFY
        --condition "(object -> 'hp')::int > 1000\"""",
        "alter": """Examples: headrace rule alter fast --condition "(object -> 'hp')::int > 900" · headrace rule alter fast
        --no-active""",
        "drop": "Its versions and firings stay on record.",
        "pause": "It still fires, but its actions are held until it is resumed.",
        "versions": "Each has the positions for which it was active.",
    },
).build()


@command(group, "why-not")
def why_not(
    session: Session,
    name: Annotated[str, Argument(metavar="RULE", help="Name of the rule.", show_default=False)],
    event_id: EventId,
) -> None:
    """Show why a rule did not fire on an event: the clauses that did not hold, with their values.

    Example: headrace rule why-not vip 01981f6c-0000-7000-8000-000000000000
    """
    target, answer = session.find(UnknownEvent, session.bind(explain_rule, name, event_id))
    values: Column = ("values", lambda clause: ", ".join(f"{part.text} = {part.value}" for part in clause.parts))
    session.print(
        {"shard": target.name} | msgspec.to_builtins(answer),
        f"rule {name}, event {event_id}: {answer.reason}",
        *([table([("clause", "text"), ("is", "value"), values], answer.failing)] if answer.failing else []),
    )
