"""Calls after the commit: mails, HTTP requests and other work outside the database, asked for by a handler.

Promises: a call is recorded in the handler's own transaction, so it happens if and only if that commits; a node makes it then, at
least once, with retries, and a call that fails for good is a dead letter. A call is an action, and everything that shows or changes
actions shows and changes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, overload
from uuid import UUID

import msgspec

from headrace.actions.action import Action, send_steps
from headrace.actions.handlers import ActionHandler
from headrace.core import InvalidHandler
from headrace.drivers import AsyncConnection, SyncConnection, handler_name, is_async_connection, run_steps, run_steps_async

P = ParamSpec("P")
R = TypeVar("R")


class AfterCommit(Generic[P, R]):
    """A function that handlers call after their commit. Calling it directly just runs it."""

    def __init__(self, function: Callable[P, R], *, action: str, namespace: str | None) -> None:
        self.action = action
        self.__wrapped__ = function
        self._namespace = namespace
        self._arguments = _arguments_type(function, action)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    @overload
    def after_commit(self, tx: AsyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, UUID]: ...
    @overload
    def after_commit(self, tx: SyncConnection, /, *args: P.args, **kwargs: P.kwargs) -> UUID: ...
    @overload
    def after_commit(self, tx: object, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def after_commit(self, tx: Any, /, *args: P.args, **kwargs: P.kwargs) -> UUID | Coroutine[Any, Any, UUID]:
        """Records a call in the transaction of `tx`, and returns the id of its action; await it if `tx` is asynchronous."""
        bound = inspect.signature(self.__wrapped__).bind(*args, **kwargs)
        steps = send_steps(self.action, bound.arguments, namespace=self._namespace)
        return run_steps_async(tx, steps) if is_async_connection(tx) else run_steps(tx, steps)

    def handler(self) -> ActionHandler:
        """The handler of the action: it makes the recorded call."""
        function: Callable[..., Any] = self.__wrapped__

        async def call_async(action: Any, _tx: object) -> None:
            await function(**_by_name(action.payload))

        def call(action: Any, _tx: object) -> None:
            function(**_by_name(action.payload))

        handler = call_async if inspect.iscoroutinefunction(function) else call
        handler.__annotations__["action"] = Action[self._arguments]  # type: ignore[name-defined]
        handler.__qualname__ = handler_name(function)
        # Do not set __wrapped__, which would lend it the function's signature.
        vars(handler)["after_commit_function"] = function
        return handler


def _by_name(arguments: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in arguments.__struct_fields__}


def _arguments_type(function: Callable[..., Any], action: str) -> type[msgspec.Struct]:
    """A Struct with a field for each parameter, so that arguments become what the annotations say."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    fields: list[tuple[str, Any, Any]] = []
    for parameter in parameters:
        if parameter.kind not in kinds:
            raise InvalidHandler(
                f"{action}: {handler_name(function)} has the parameter {parameter}; its arguments are kept as JSON by their names, "
                "so give each one a name of its own"
            )
        kind = Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation
        is_required = parameter.default is inspect.Parameter.empty
        default = msgspec.NODEFAULT if is_required else msgspec.field(default_factory=partial(_same, parameter.default))
        fields.append((parameter.name, kind, default))
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _same(value: object) -> object:
    return value
