"""`headrace pause` and `headrace resume`: stop consumers, rules, correlators, schedules, actions or the queue for a while."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, BadParameter, Option, Typer

from headrace.actions import PauseKind, list_pauses, pause, resume
from headrace.cli.definition import resumed_text
from headrace.cli.session import Session, command
from headrace.core import UnknownSchedule

group = Typer()

Kind = Annotated[PauseKind, Argument(metavar="KIND", help="consumer, rule, correlator, relay, schedule, action or queue.")]
NAME_HELP = "Its name; a consumer is TOPIC/CONSUMER, a queue has none."
Name = Annotated[str, Argument(metavar="NAME", help=NAME_HELP, show_default=False)]


@command(group, "pause")
def pause_(
    session: Session,
    kind: Annotated[
        PauseKind | None,
        Argument(metavar="KIND", help="consumer, rule, correlator, relay, schedule, action or queue.", show_default="list"),
    ] = None,
    name: Name = "",
    reason: Annotated[str | None, Option(help="Why; shown in the list of pauses.")] = None,
) -> None:
    """Pause a consumer, rule, correlator, relay, schedule, action or the queue; without KIND, list what is paused.

    What runs finishes, and nodes start nothing new within a second. Nothing is lost: a consumer and a correlator stay at their
    positions, actions stay in the queue, and a rule still fires, but its actions are held. A schedule skips its ticks.

    Examples: headrace pause consumer orders/billing · headrace pause action MAIL --reason 'provider is down' · headrace pause queue ·
    headrace pause
    """
    if kind is None:
        pauses = session.collect(session.bind(list_pauses))
        session.show(["kind", "name", ("since", "paused_at"), ("by", "paused_by"), "reason"], pauses)
        return
    _require_name(kind, name)
    if kind == "schedule":
        _, changed = session.find(UnknownSchedule, session.bind(pause, kind, name))
    else:
        changed = any(session.on_every_shard(session.bind(pause, kind, name, reason=reason)))
    state = "is paused" if changed else "was paused already"
    session.done(f"{_subject(kind, name)} {state}", {"kind": kind, "name": name, "state": "paused", "changed": changed})


@command(group, "resume")
def resume_(session: Session, kind: Kind, name: Name = "") -> None:
    """Resume what `pause` has paused. Stopped or waiting partitions of a consumer are tried again at once.

    Examples: headrace resume consumer orders/billing · headrace resume queue
    """
    _require_name(kind, name)
    if kind == "schedule":
        _, count = session.find(UnknownSchedule, session.bind(resume, kind, name))
    else:
        count = sum(session.on_every_shard(session.bind(resume, kind, name)))
    session.done(
        f"{_subject(kind, name)} {resumed_text(kind, count)}", {"kind": kind, "name": name, "state": "running", "resumed": count}
    )


def _require_name(kind: PauseKind, name: str) -> None:
    if (kind == "queue") == bool(name):
        raise BadParameter("a queue has no name" if name else f"name the {kind}: {NAME_HELP}", param_hint="NAME")


def _subject(kind: PauseKind, name: str) -> str:
    return f"{kind} {name}" if name else "the queue"
