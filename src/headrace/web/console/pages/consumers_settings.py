"""Settings of a consumer: its failure policy and its condition, shown and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from headrace import consume
from headrace.core import Invalid, LoggedEvent
from headrace.db import Connection
from headrace.web.console.view import Done, View

POLICIES = ("retry", "stop", "dead-letter")
ATTEMPTS_DIGITS_MAX = 6


def read_policy(form: Mapping[str, str]) -> consume.Failure:
    """The failure policy that a form asks for."""
    policy, attempts = one_of(form.get("on_failure"), POLICIES), form.get("attempts", "").strip()
    if attempts and (not attempts.isdigit() or len(attempts) > ATTEMPTS_DIGITS_MAX):
        raise Invalid(f"attempts must be a whole number, not {attempts!r}")
    count = int(attempts) if attempts else None
    if policy == "stop":
        return consume.Failure.stop()
    if policy == "retry":
        return consume.Failure.retry(attempts=count)
    return consume.Failure.dead_letter(attempts=count) if count else consume.Failure.dead_letter()


def read_condition(form: Mapping[str, str]) -> str | None:
    """The condition of a form; None for all events."""
    return form.get("where", "").replace("\r\n", "\n").strip() or None


def one_of(text: str | None, choices: Sequence[str]) -> str:
    if text and text not in choices:
        raise Invalid(f"{text!r} is not one of {', '.join(choices)}")
    return text or choices[0]


def no_handler(_event: LoggedEvent, _conn: Connection) -> None:
    """Stands in for the handler, which only a node has."""


def settings_facts(settings: consume.ConsumerSettings) -> list[tuple[str, object]]:
    """The settings in words."""
    facts: list[tuple[str, object]] = [
        ("Order", "by partition" if settings.ordered_by == "partition" else "the whole topic"),
        ("When its handler fails", _policy_words(settings)),
        ("Condition", settings.condition or "none: it gets all events"),
        ("Created", settings.created_at),
    ]
    if settings.condition:
        facts.insert(3, ("State of the condition", settings.condition_status))
    return facts


def _policy_words(settings: consume.ConsumerSettings) -> str:
    attempts = settings.attempts_max
    if settings.when_exhausted == "dead_letter":
        return f"{attempts} attempts, then the dead letters" if attempts != 1 else "the event is moved to the dead letters"
    if attempts == 1:
        return "the partition stops"
    return "it is retried for ever" if attempts is None else f"{attempts} attempts, then the partition stops"


def settings_fields(settings: consume.ConsumerSettings) -> dict[str, str]:
    """The settings as the fields of the form."""
    is_stop = settings.when_exhausted == "stop" and settings.attempts_max == 1
    return {
        "on_failure": "dead-letter" if settings.when_exhausted == "dead_letter" else "stop" if is_stop else "retry",
        "attempts": "" if is_stop or settings.attempts_max is None else str(settings.attempts_max),
        "where": settings.condition or "",
    }


def alter_settings(view: View, topic: str, name: str) -> Done:
    """Changes failure policy and condition on every selected shard; cursors, order and pauses between attempts stay."""
    policy, where = read_policy(view.form), read_condition(view.form)

    def act(conn: Connection) -> None:
        before = consume.get_consumer(conn, topic, name, namespace=view.namespace)
        consumer = consume.Consumer(
            topic=topic,
            name=name,
            handler=no_handler,
            ordered_by=before.ordered_by,
            failure=replace(policy, backoff_s=before.backoff_s, backoff_max_s=before.backoff_max_s, key_order=before.key_order),
            where=where,
            namespace=view.namespace,
        )
        consume.create_consumer(conn, consumer)

    def state(conn: Connection) -> object:
        settings = asdict(consume.get_consumer(conn, topic, name, namespace=view.namespace))
        return {field: settings[field] for field in ("attempts_max", "when_exhausted", "condition")}

    view.change("consumer.alter", f"{topic}/{name}", act, state=state)
    return Done(f"consumer {topic}/{name} changed", "")
