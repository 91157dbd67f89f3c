"""The application of the demo: two consumers, and handlers for the actions of its rules, as a user would write them.

`airport-statistics` gets batches and updates a table; for every departure that is hours late it publishes an event.
Table, new events and cursor commit together, so each flight counts once whatever crashes.
`passenger-desk` gets those events one by one, in the order of the topic.
The rules in rules.yaml and the correlators in correlators.yaml send actions, which the handlers below carry out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

from headrace.actions import Action
from headrace.consume import Batch
from headrace.core import Event, LoggedEvent
from headrace.db import AsyncConnection, Connection, query
from headrace.demo.definitions import BELIEVED_MIN
from headrace.demo.flights import ARRIVED, CANCELLED, DEPARTED, TOPIC
from headrace.log.outbox import publish_many
from headrace.node import Headrace

DELAYS = "delays"
OPERATIONS = "operations"
LATE_MIN = 180

app = Headrace()


@app.consumer(TOPIC, batch=Batch(max=2000))
def airport_statistics(events: Sequence[LoggedEvent], conn: Connection) -> None:
    """Counts flights per airport, and publishes an event for each departure that is very late."""
    counts: dict[str, Counts] = defaultdict(Counts)
    late: list[Event] = []
    for event in events:
        flight = cast(dict[str, Any], event.payload)
        if event.type == DEPARTED:
            counts[flight["origin"]].departures += 1
            counts[flight["origin"]].delay_min += flight["delay_min"]
            if flight["delay_min"] >= LATE_MIN:
                late.append(Event(topic=DELAYS, type="flight.delayed", key=event.key, payload=flight))
        elif event.type == ARRIVED:
            counts[flight["dest"]].arrivals += 1
        elif event.type == CANCELLED:
            counts[flight["origin"]].cancelled += 1
    _add(conn, counts)
    if late:
        publish_many(conn, late)
    conn.execute(query("demo/record_batch"), (events[0].partition, events[0].position, events[-1].position, len(events)))


@app.consumer(DELAYS, ordered_by="topic")
def passenger_desk(event: LoggedEvent, conn: Connection) -> None:
    """Notifies the passengers of one late flight."""
    flight = cast(dict[str, Any], event.payload)
    conn.execute(query("demo/record_notice"), (event.position, event.key, flight["origin"], flight["dest"], flight["delay_min"]))


@app.handler("SEND_VOUCHER", attempts=2, backoff_s=0.1)
async def send_voucher(action: Action, tx: AsyncConnection) -> None:
    """A voucher for each long delay. An incredible delay fails for good and becomes a dead letter."""
    flight = cast(dict[str, Any], action.payload)
    if flight["delay_min"] > BELIEVED_MIN:
        # Quoted, so that dead letters of this kind form one group, whatever the flight.
        raise ValueError(f"a delay of {flight['delay_min']} minutes: check flight '{flight['carrier']}{flight['flight']}' first")
    await _record(action, tx)


@app.handler("FETCH_PASSENGERS")
async def fetch_passengers(action: Action, tx: AsyncConnection) -> None:
    """A bus to the airport where the flight landed."""
    await _record(action, tx)


@app.handler("CHECK_AIRCRAFT")
@app.handler("SEARCH_AIRCRAFT")
@app.handler("INVESTIGATE_AIRPORT")
async def dispatch(action: Action, tx: AsyncConnection) -> None:
    """Sends someone to an aircraft whose delays grow or that did not arrive, or to an airport where nothing departs."""
    await tx.execute(query("demo/record_dispatch"), {"action_id": action.id, "action": action.action, "key": action.key})


@app.handler("REBOOK_PASSENGERS")
async def rebook_passengers(action: Action, tx: AsyncConnection) -> None:
    """Another flight for every passenger."""
    await _record(action, tx)


async def _record(action: Action, tx: AsyncConnection) -> None:
    flight = cast(dict[str, Any], action.payload)
    parameters = {
        "action_id": action.id,
        "action": action.action,
        "flight": f"{flight['carrier']}{flight['flight']}",
        "dest": flight["dest"],
        "delay_min": flight.get("delay_min"),
    }
    await tx.execute(query("demo/record_care"), parameters)


class Counts:
    """What a batch adds to an airport."""

    def __init__(self) -> None:
        self.departures = self.arrivals = self.cancelled = self.delay_min = 0


def _add(conn: Connection, counts: dict[str, Counts]) -> None:
    # Lock in the order of names: partitions are handled concurrently, and two that lock the same rows must not deadlock.
    airports = sorted(counts)
    ordered = [counts[airport] for airport in airports]
    parameters = {
        "airports": airports,
        "departures": [count.departures for count in ordered],
        "arrivals": [count.arrivals for count in ordered],
        "cancelled": [count.cancelled for count in ordered],
        "delay_min": [count.delay_min for count in ordered],
    }
    conn.execute(query("demo/count_flights"), parameters)
