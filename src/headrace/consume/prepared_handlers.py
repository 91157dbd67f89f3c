"""Prepared handlers: a handler with its options, as a function of the same two arguments that a node calls.

The second argument, the transaction, is passed on as it is. A handler that needs nothing stays the function it was, so it costs
nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any, TypeAlias

import msgspec
import psycopg

from headrace.consume.payloads import Decode, Numbers, mismatch_text, payload_decoder, raw_payload
from headrace.consume.signatures import Delivery, HandlerForm, check_handler, is_async_callable
from headrace.core import Bury, HandlerOutcome, HandlerTimeout, Invalid, InvalidHandler, LoggedEvent, PayloadMismatch
from headrace.drivers import CANCEL_S, Cancel, driver_connection, handler_name, statement_cancel

logger = logging.getLogger(__name__)

CANCEL_GRACE_S = 0.25
"""How long a handler may take to end after its statement was cancelled."""

AnyHandler: TypeAlias = Callable[[Any, Any], Awaitable[None]] | Callable[[Any, Any], None]


@dataclass(frozen=True, kw_only=True)
class HandlerOptions:
    """Options that consumers and actions share."""

    timeout_s: float | None = None
    """How long a call may take."""
    numbers: Numbers = "float"
    """What JSON numbers with a fraction or exponent become in the payload."""
    bury_invalid: bool = False
    """Move a payload that does not fit the handler's type to the dead letters at once."""

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not 0 < self.timeout_s < float("inf"):
            raise Invalid(f"timeout_s is {self.timeout_s}; give a number of seconds above zero, or leave it out")
        payload_decoder(None, self.numbers)


@dataclass(frozen=True, kw_only=True)
class PreparedHandler:
    """A checked handler, ready to be called."""

    function: AnyHandler
    form: HandlerForm
    decode: Decode | None
    """None: the handler takes payloads as psycopg decodes them."""


def prepare_handler(
    function: AnyHandler, delivery: Delivery, options: HandlerOptions, *, is_raw: bool = False
) -> PreparedHandler:
    """Checks a handler and adds its options. With `is_raw` it will get payloads as JSON text, because another handler needs that."""
    form = check_handler(function, delivery)
    decode = _decoder(form, delivery, options, is_raw=is_raw)
    convert = _converter(decode, delivery, form, options) if decode else None
    prepared = _call_async(function, convert, options) if form.is_async else _call_sync(function, convert, options)
    return PreparedHandler(function=prepared, form=form, decode=decode)


def _decoder(form: HandlerForm, delivery: Delivery, options: HandlerOptions, *, is_raw: bool) -> Decode | None:
    if form.payload_type is None and options.numbers == "float" and not is_raw:
        return None
    try:
        return payload_decoder(form.payload_type, options.numbers)
    except (TypeError, NameError) as error:
        raise InvalidHandler(
            f"{delivery.owner}: {form.payload_type} is not a type for payloads: {error}; "
            "give a pydantic model, a msgspec Struct, a dataclass, an attrs class or a TypedDict"
        ) from error


def _converter(decode: Decode, delivery: Delivery, form: HandlerForm, options: HandlerOptions) -> Callable[[Any], object]:
    type_name = getattr(form.payload_type, "__name__", str(form.payload_type))

    def convert(argument: Any) -> object:
        try:
            changes: dict[str, object] = {"payload": decode(raw_payload(argument.payload))}
        except ValueError as error:  # msgspec's and pydantic's errors are ValueErrors.
            what = f"event {argument.id}" if isinstance(argument, LoggedEvent) else f"action {argument.action} {argument.id}"
            text = f"the payload of {what} does not fit {type_name}: {mismatch_text(error)}"
            if options.bury_invalid:
                raise Bury(text) from error
            raise PayloadMismatch(f"{text}; correct the publisher or the type") from error
        if isinstance(argument, LoggedEvent) and isinstance(argument.headers, msgspec.Raw):
            changes["headers"] = msgspec.json.decode(argument.headers)
        return msgspec.structs.replace(argument, **changes)

    def convert_all(arguments: Sequence[Any]) -> object:
        return [convert(argument) for argument in arguments]

    return convert_all if delivery.is_batch else convert


def _call_async(
    function: Callable[[Any, Any], Any], convert: Callable[[Any], object] | None, options: HandlerOptions
) -> AnyHandler:
    timeout_s = options.timeout_s
    if convert is None and timeout_s is None and not _needs_wrapper(function):
        return function

    @wraps(function)
    async def call(argument: Any, session: Any) -> None:
        if convert is not None:
            argument = convert(argument)
        if timeout_s is None:
            await function(argument, session)
            return
        async with _TimeLimit(function, session, timeout_s):
            await function(argument, session)

    return call


class _TimeLimit:
    """Limits an async function. Its task is cancelled, but not inside a statement of SQLAlchemy: then the statement is."""

    def __init__(self, function: object, session: Any, timeout_s: float) -> None:
        self._function = function
        self._timeout_s = timeout_s
        self._cancel = statement_cancel(session)
        self._limit = asyncio.timeout(timeout_s if self._cancel is None else None)
        self._expiry: asyncio.Task[None] | None = None
        self._is_expired = False
        self._is_cancel_sent = asyncio.Event()

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        if self._cancel is not None:
            self._expiry = asyncio.create_task(self._expire(self._cancel))

    async def _expire(self, cancel: Cancel) -> None:
        await asyncio.sleep(self._timeout_s)
        self._is_expired = True
        try:
            await cancel()
        except Exception as error:  # noqa: BLE001 - of any driver; the task is cancelled all the same
            logger.warning("%s, but its statement was not cancelled: %r", _timeout_text(self._function, self._timeout_s), error)
        finally:
            self._is_cancel_sent.set()
        await asyncio.sleep(CANCEL_GRACE_S)
        self._limit.reschedule(asyncio.get_running_loop().time())

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._expiry is not None:
            if self._is_expired:
                # A cancel that comes late would hit a statement of headrace.
                await self._is_cancel_sent.wait()
            self._expiry.cancel()
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            raise HandlerTimeout(_timeout_text(self._function, self._timeout_s)) from timeout
        is_cancelled = error is not None and not isinstance(error, Exception)
        if self._is_expired and not is_cancelled and not isinstance(error, HandlerOutcome):
            raise HandlerTimeout(_timeout_text(self._function, self._timeout_s)) from error


def _needs_wrapper(function: object) -> bool:
    """An object with an async `__call__` is no coroutine function for those who call it."""
    return is_async_callable(function) and not asyncio.iscoroutinefunction(function)


def _call_sync(
    function: Callable[[Any, Any], Any], convert: Callable[[Any], object] | None, options: HandlerOptions
) -> AnyHandler:
    timeout_s = options.timeout_s
    if convert is None and timeout_s is None:
        return function

    @wraps(function)
    def call(argument: Any, session: Any) -> None:
        if convert is not None:
            argument = convert(argument)
        if timeout_s is None:
            function(argument, session)
            return
        with _watch(function, session, timeout_s):
            function(argument, session)

    return call


@contextmanager
def _watch(function: object, session: Any, timeout_s: float) -> Iterator[None]:
    """Limits a plain function. A thread cannot be stopped, so what can be is: its running statement is cancelled, and when the
    function ends too late, its effects do not count."""
    started = time.monotonic()
    driver = driver_connection(session)
    lock, is_running = threading.Lock(), True

    def expire() -> None:
        # Cancel under the lock: a cancel that comes late would hit a statement of headrace.
        with lock:
            if not is_running:
                return
            logger.warning(
                "%s; a plain function cannot be interrupted outside of the database", _timeout_text(function, timeout_s)
            )
            if isinstance(driver, psycopg.Connection):
                driver.cancel_safe(timeout=CANCEL_S)

    timer = threading.Timer(timeout_s, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    except HandlerOutcome:
        raise
    except Exception as error:
        if time.monotonic() - started > timeout_s:
            raise HandlerTimeout(_timeout_text(function, timeout_s)) from error
        raise
    finally:
        with lock:
            is_running = False
        timer.cancel()
    if time.monotonic() - started > timeout_s:
        raise HandlerTimeout(_timeout_text(function, timeout_s))


def _timeout_text(function: object, timeout_s: float) -> str:
    return f"handler {handler_name(function)} ran longer than timeout_s = {timeout_s:g}; raise it, or shorten the handler"
