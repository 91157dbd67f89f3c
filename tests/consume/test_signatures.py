"""Handlers are checked when they are registered: a wrong one never waits for its first event to fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Action, Batch, Headrace, InvalidHandler, LoggedEvent

if TYPE_CHECKING:
    from nowhere import OnlyForTypeCheckers


@dataclass
class Order:
    id: int


async def one_argument(event): ...
async def three_arguments(event, tx, more): ...
async def keyword_only(event, tx, *, option): ...
def no_arguments(): ...
async def swapped(tx, event): ...
async def generator(event, tx):
    yield event


def plain_generator(event, tx):
    yield event


async def list_of_events(events: list[LoggedEvent], tx): ...
async def wrong_argument(action: Action, tx): ...
async def payload_itself(order: Order, tx): ...
async def unknown_payload(event: LoggedEvent[Missing], tx): ...  # noqa: F821
async def unsupported_payload(event: LoggedEvent[5], tx): ...


def not_awaited(function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: object) -> object:
        return function(*args)

    return call


@not_awaited
async def hidden_async(event, tx): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (one_argument, "one_argument takes (event), but is called with two arguments"),
        (three_arguments, "three_arguments takes (event, tx, more), but is called with two arguments"),
        (keyword_only, "keyword_only takes (event, tx, *, option)"),
        (no_arguments, "no_arguments takes (), but is called with two arguments"),
        (swapped, "swapped takes (tx, event), but the transaction comes second"),
        (generator, "generator has a yield"),
        (plain_generator, "plain_generator has a yield"),
        (list_of_events, "asks for a list[LoggedEvent], but gets one at a time, unless you give batch=Batch(...)"),
        (wrong_argument, "asks for a Action, but gets a LoggedEvent"),
        (payload_itself, "asks for a Order, but gets a LoggedEvent; for a payload of that type annotate LoggedEvent[Order]"),
        (unknown_payload, "has the annotation 'LoggedEvent[Missing]', which cannot be read: name 'Missing' is not defined"),
        (hidden_async, "is an async function behind a decorator that returns a plain one, so nobody would await it"),
        (Order, "Order is a class, not a function"),
        (5, "int cannot be called"),
    ],
)
def test_wrong_handler_is_rejected_with_the_expected_form(function: Any, message: str) -> None:
    app = Headrace()
    with pytest.raises(InvalidHandler) as caught:
        app.consumer("orders", name="billing")(function)
    text = str(caught.value)
    assert text.startswith("consumer orders/billing: ") and message in text
    assert "(event: LoggedEvent, tx), or the same as a plain def" in text
    assert not app.consumers


def test_type_that_no_payload_can_have_is_rejected() -> None:
    with pytest.raises(InvalidHandler, match="5 is not a type for payloads"):
        Headrace().consumer("orders", name="billing")(unsupported_payload)


async def single_event(event: LoggedEvent, tx): ...


def test_handler_of_a_batch_consumer_takes_a_sequence() -> None:
    with pytest.raises(InvalidHandler, match="asks for a single LoggedEvent, but gets batches") as caught:
        Headrace().consumer("orders", batch=Batch(max=10))(single_event)
    assert "async def single_event(events: Sequence[LoggedEvent], tx)" in str(caught.value)


async def event_not_action(event: LoggedEvent, tx): ...


def test_handlers_of_actions_and_event_types_get_an_action() -> None:
    app = Headrace()
    for register in (app.handler("MAIL"), app.on("placed")):
        with pytest.raises(
            InvalidHandler, match=r"asks for a LoggedEvent, but gets a Action; write: async def event_not_action\(action: Action"
        ):
            register(event_not_action)
        with pytest.raises(InvalidHandler, match=r"handler of action .*takes \(event\)"):
            register(one_argument)
    assert not app.action_handlers


class AsyncObject:
    async def __call__(self, event, tx): ...


class Service:
    def handle(self, event, tx): ...


async def untyped(event, tx): ...
def plain(event: Any, tx: OnlyForTypeCheckers) -> None: ...
def only_for_type_checkers(event: OnlyForTypeCheckers, tx) -> None: ...
def default(event, tx=None, *, more=1): ...
def anything(*args): ...
def bound(prefix, event, tx): ...


@pytest.mark.parametrize(
    "function",
    [
        untyped,
        plain,
        only_for_type_checkers,
        default,
        anything,
        AsyncObject(),
        Service().handle,
        partial(bound, 1),
        lambda event, tx: None,
    ],
)
def test_every_callable_of_two_arguments_is_a_handler(function: Any) -> None:
    app = Headrace()
    app.consumer("orders", name="billing")(function)
    app.handler("MAIL")(function)
    assert len(app.consumers) == len(app.action_handlers) == 1


def test_handler_without_options_stays_the_function_it_was() -> None:
    app = Headrace()
    app.consumer("orders")(untyped)
    app.handler("MAIL")(untyped)
    assert app.consumers[0].handler is untyped and app.action_handlers["MAIL"].handlers == (untyped,)


async def sequence(events: Sequence[LoggedEvent[Order]], tx): ...


def test_prepared_handler_keeps_the_signature() -> None:
    """What looks at the second parameter later must find it."""
    import inspect

    app = Headrace()
    app.consumer("orders", batch=Batch(), timeout_s=1)(sequence)
    assert list(inspect.signature(app.consumers[0].handler).parameters) == ["events", "tx"]
