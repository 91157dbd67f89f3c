"""Signatures: checks a handler when it is registered, so that a wrong one fails at once and not with the first event.

Also reads from the annotation of the first parameter which type the payload shall have: `event: LoggedEvent[Order]`."""

from __future__ import annotations

import collections.abc
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from headrace.core import JSON, InvalidHandler, LoggedEvent
from headrace.drivers import handler_name, innermost

_SEQUENCES = (list, tuple, collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable)
_SESSION_NAMES = {"tx", "conn", "connection", "session", "db"}
_ARGUMENT_NAMES = {"event", "events", "action", "payload"}
_UNTYPED = (inspect.Parameter.empty, Any, object, None)


@dataclass(frozen=True, kw_only=True)
class HandlerForm:
    """What the signature of a handler says."""

    is_async: bool
    payload_type: object = None
    """The type that the payload shall have; None: any JSON value."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What handlers get as their first argument, and who delivers it."""

    owner: str
    """For messages, for example `consumer orders/billing`."""
    argument: type = LoggedEvent
    is_batch: bool = False

    def expected_form(self, name: str) -> str:
        parameter = "event" if self.argument is LoggedEvent else "action"
        annotation = self.argument.__name__
        if self.is_batch:
            parameter, annotation = f"{parameter}s", f"Sequence[{annotation}]"
        return f"async def {name}({parameter}: {annotation}, tx), or the same as a plain def"


def check_handler(function: Callable[..., Any], delivery: Delivery) -> HandlerForm:
    """The form of a handler; raises InvalidHandler with the expected form."""
    name = handler_name(function)

    def reject(problem: str) -> NoReturn:
        raise InvalidHandler(f"{delivery.owner}: {name} {problem}; write: {delivery.expected_form(name.rpartition('.')[2])}")

    if not callable(function) or isinstance(function, type):
        reject("is a class, not a function" if isinstance(function, type) else "cannot be called")
    inner = innermost(function)
    if any(inspect.isgeneratorfunction(part) or inspect.isasyncgenfunction(part) for part in (function, inner)):
        reject("has a yield, so a call would not run it")
    is_async = is_async_callable(function)
    if not is_async and is_async_callable(inner):
        reject(
            "is an async function behind a decorator that returns a plain one, so nobody would await it; make the wrapper async"
        )
    parameters = _first_parameters(function, reject)
    if len(parameters) == 2 and parameters[0].name in _SESSION_NAMES and parameters[1].name in _ARGUMENT_NAMES:
        reject(f"takes ({parameters[0].name}, {parameters[1].name}), but the transaction comes second")
    payload_type = _payload_type(_resolve(inner, parameters[0].annotation, reject), delivery, reject) if parameters else None
    return HandlerForm(is_async=is_async, payload_type=payload_type)


def is_async_callable(function: object) -> bool:
    """Does a call return something to await? Also true of an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(vars(type(function)).get("__call__"))


def _first_parameters(function: Callable[..., Any], reject: Callable[[str], NoReturn]) -> list[inspect.Parameter]:
    """The first two parameters, if they are positional ones with names of their own."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return []  # A builtin without a signature.
    try:
        signature.bind(None, None)
    except TypeError:
        reject(f"takes {_without_annotations(signature)}, but is called with two arguments")
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in signature.parameters.values() if parameter.kind in kinds][:2]


def _without_annotations(signature: inspect.Signature) -> inspect.Signature:
    empty = inspect.Parameter.empty
    parameters = [parameter.replace(annotation=empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=empty)


def _resolve(function: object, annotation: object, reject: Callable[[str], NoReturn]) -> object:
    """The annotation as a value, also if it is written as text."""
    if not isinstance(annotation, str):
        return annotation
    function = getattr(function, "__func__", function)
    names = getattr(function, "__globals__", None) or getattr(type(function).__call__, "__globals__", {})
    try:
        # Resolve only this one: the names of other annotations may exist for type checkers only.
        return get_type_hints(SimpleNamespace(__annotations__={"argument": annotation}), globalns=names)["argument"]
    except Exception as error:  # noqa: BLE001 - the text of an annotation may be anything
        if "[" not in annotation:
            return inspect.Parameter.empty
        reject(f"has the annotation {annotation!r}, which cannot be read: {error}. Define or import its names in the module")


def _payload_type(annotation: object, delivery: Delivery, reject: Callable[[str], NoReturn]) -> object:
    if annotation in _UNTYPED:
        return None
    origin = get_origin(annotation) or annotation
    is_sequence = isinstance(origin, type) and origin in _SEQUENCES
    if delivery.is_batch:
        if not is_sequence:
            reject(f"asks for a single {_type_name(annotation)}, but gets batches")
        annotation = next(iter(get_args(annotation)), Any)
        origin = get_origin(annotation) or annotation
    elif is_sequence:
        hint = ", unless you give batch=Batch(...)" if delivery.argument is LoggedEvent else ""
        reject(f"asks for a {_type_name(annotation)}, but gets one at a time{hint}")
    if origin is delivery.argument:
        payload_type = next(iter(get_args(annotation)), None)
        return None if payload_type in _UNTYPED or payload_type is JSON else payload_type
    if isinstance(origin, type) and not issubclass(delivery.argument, origin):
        name, wanted = delivery.argument.__name__, _type_name(annotation)
        if origin.__name__ in ("Action", "LoggedEvent"):
            reject(f"asks for a {wanted}, but gets a {name}")
        reject(f"asks for a {wanted}, but gets a {name}; for a payload of that type annotate {name}[{wanted}]")
    return None


def _type_name(annotation: object) -> str:
    return annotation.__name__ if type(annotation) is type else re.sub(r"\b\w+\.", "", inspect.formatannotation(annotation))
