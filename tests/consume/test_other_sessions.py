"""A session kind that another package adds works like ours: in the handler's transaction, which it cannot end."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.consume import Batch, Consumer
from headrace.core import Invalid, PackageMissing
from headrace.db import Connection
from headrace.drivers import SESSION_KINDS, session_kind
from tests.builders import fill, topic
from tests.consume.conftest import Start, run_dry
from tests.example_packages import add_entry_point, example_packages, installed_packages

__all__ = ["example_packages", "installed_packages"]

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.usefixtures("example_packages")]

INSERT = "insert into effect (n) values (%(n)s)"


def asking_for(annotation: object, handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler with an annotation for its second parameter."""
    handler.__annotations__["session"] = annotation
    return handler


@pytest.fixture
def records() -> Any:
    return import_module("headrace_session_records").Records


@pytest.fixture
def effects(conn: Connection) -> Callable[[], list[int]]:
    topic(conn)
    fill(conn, 4)
    conn.execute("create table effect (n int)")
    return lambda: [n for (n,) in conn.execute("select n from effect order by n").fetchall()]


@pytest.mark.parametrize("batch", [None, Batch(max=4)], ids=["single events", "batches"])
async def test_effects_commit_with_the_cursor_once(
    start: Start, effects: Callable[[], list[int]], records: Any, batch: Batch | None
) -> None:
    async def handle(item: Any, session: Any) -> None:
        for event in item if batch else [item]:
            assert isinstance(session, records)
            session.later(INSERT, n=event.payload)
            assert (await session.one("select count(*) as events from effect")) is not None

    await run_dry(await start(Consumer(topic="orders", name="c", handler=asking_for(records, handle), batch=batch)))
    assert effects() == [1, 2, 3, 4]


async def test_failed_handler_leaves_nothing(start: Start, effects: Callable[[], list[int]], records: Any) -> None:
    failed: list[int] = []

    async def handle(event: Any, session: Any) -> None:
        await session.all("insert into effect (n) values (%(n)s) returning n", n=event.payload)
        if event.payload == 2 and not failed:
            failed.append(2)
            raise ValueError("once")

    runner = await start(Consumer(topic="orders", name="c", handler=asking_for(records, handle)))
    await runner.handle_once()
    assert (effects(), failed) == ([1], [2])


async def test_session_cannot_end_the_transaction(start: Start, effects: Callable[[], list[int]], records: Any) -> None:
    async def handle(event: Any, session: Any) -> None:
        session.later("commit")
        session.later(INSERT, n=event.payload)

    runner = await start(Consumer(topic="orders", name="c", handler=asking_for(records, handle)))
    await runner.handle_once()
    assert runner.failures == 1


def test_kind_is_found_by_class_subclass_and_text_and_loaded_when_it_is_asked_for(records: Any) -> None:
    name = "headrace_session_records.Records"
    subclass = type("Mine", (records,), {})
    assert [session_kind(annotation) for annotation in (records, subclass, name)] == [name] * 3
    assert session_kind(dict) is None and SESSION_KINDS.names() == (name,)


def test_application_gives_it_to_handlers_without_an_annotation(records: Any) -> None:
    app = Headrace(session=records)

    @app.consumer("orders")
    async def handle(event: Any, session: Any) -> None: ...

    def plain(event: Any, session: Any) -> None: ...

    with pytest.raises(Invalid, match=r"plain is a plain function but gets headrace_session_records\.Records"):
        app.consumer("orders", name="plain")(asking_for(records, plain))


def test_package_that_cannot_be_loaded_is_an_error_when_the_handler_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_entry_point(
        tmp_path, "headrace.session_kinds", f"{__name__.partition('.')[0]}.Broken", "not_there:KIND", package="broken"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    async def handle(event: Any, session: Any) -> None: ...

    with pytest.raises(PackageMissing, match=r"the session kind 'tests\.Broken' of the package broken cannot be loaded"):
        Headrace().consumer("orders")(asking_for(type("Broken", (), {"__module__": "tests.x"}), handle))
