"""Relays: what is delivered where, how far, and why not; the plan maps the newest events. Their cursors move on the page of the consumer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from headrace.db import Connection
from headrace.definitions import Field
from headrace.definitions.schemas import Finding, RelayFields, find_in_relay
from headrace.relays import RELAYS, TARGETS, Relay, RelayBacktest, RelayState, backtest_relay
from headrace.web.console.pages.consumers import CURSOR_COLUMNS, consumer_url, read_cursors, summarize
from headrace.web.console.pages.definitions import DefinitionPages, Details
from headrace.web.console.tables import Column, Row, Table
from headrace.web.console.view import View

BACKTEST_EVENTS = 1_000
"""Events at the end of the log that the plan maps."""


class RelayPages(DefinitionPages[Relay]):
    kind = RELAYS
    listed = ("topic", "target", "condition")
    example = "headrace relay create crm --topic orders --target webhook -o url=https://crm.example/hook -o secret=env:CRM"
    plan_hint = "Shows what would change, and what it would have sent. Nothing is changed or sent yet."
    edit_hint = "The cursors stay."
    applied_hint = "; a running node runs it within a second"
    drop_hint = "Its cursors and dead letters go with it; its versions stay on record."
    form_template = "relay_edit.html"
    is_topic_any = False
    only_new = ("start",)

    def columns(self, view: View) -> list[Column | str]:
        return [Column("lag_events", hint="Events not delivered yet, also such as do not meet the condition"), "lag_s"]

    def rows(self, view: View, states: Sequence[tuple[str, RelayState]]) -> list[dict[str, Any]]:
        lags = _lags(view)
        found = [(state, lags.get((shard, state.consumer), {})) for shard, state in states]
        return [
            {
                "state": self._lag_word(state, lag),
                "lag_events": lag.get("lag_events"),
                "lag_s": lag.get("lag_s"),
                "problem": state.error or lag.get("reason"),
            }
            for state, lag in found
        ]

    def _lag_word(self, state: RelayState, lag: Row) -> str:
        """What its cursors do, unless there is a problem."""
        word = self.state_word(state)
        return str(lag.get("state", word)) if word in ("active", "pending", "paused") else word

    def choices(self, view: View, field: Field, text: str) -> Sequence[str]:
        if field.name == "target":
            # A relay may have a target whose package only the nodes have.
            return list(dict.fromkeys([*TARGETS.names(), *([text] if text else [])]))
        return super().choices(view, field, text)

    def show_details(self, view: View, name: str, states: Sequence[tuple[str, RelayState]]) -> Details:
        if not states:
            return [], {"consumer_url": None, "word": "dropped"}
        relay, state = states[0][1].relay, states[0][1]
        cursors = read_cursors(view, topic=relay.topic, consumer=state.consumer)
        values: dict[str, object] = {
            "consumer_url": consumer_url(view, relay.topic, state.consumer),
            "word": self._lag_word(state, summarize(cursors) if cursors else {}),
        }
        return [Table("partitions", ("partition", *CURSOR_COLUMNS), cursors, title="Partitions")], values

    def find(self, view: View, definition: Relay) -> list[Finding]:
        fields = RelayFields(definition.condition, definition.mapping)

        def read_findings(conn: Connection) -> list[Finding]:
            return [finding for _, finding in find_in_relay(conn, definition.topic, fields, namespace=view.namespace)]

        return list(dict.fromkeys(finding for _, part in view.each_shard(read_findings) for finding in part))

    def plan_details(self, view: View, definition: Relay, before: Relay | None) -> Details:
        def run(conn: Connection) -> RelayBacktest:
            statement = "select h.position from headrace.log_head(headrace.topic_id(%s, %s)) h"
            row = conn.execute(statement, (definition.topic, view.namespace)).fetchone()
            first = max((row[0] if row else 0) - BACKTEST_EVENTS, 0) + 1
            return backtest_relay(conn, definition, start=str(first), samples=3, namespace=view.namespace)

        # Numbers of messages and bytes would tell what is in a hidden field, by the condition and the mapping that are typed here.
        backtests = [] if view.hidden_fields else view.each_shard(run)
        return [], {"backtests": backtests}


def _lags(view: View) -> dict[tuple[str, str], Row]:
    """The lag of each relay's consumer, by shard and name."""
    cursors = groupby(read_cursors(view), key=lambda row: (row["shard"], row["topic"], row["consumer"]))
    return {(row["shard"], row["consumer"]): row for _, parts in cursors if (row := summarize(list(parts)))}


ROUTES = RelayPages().routes()
