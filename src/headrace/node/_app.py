"""The application: what a node runs, described first and run later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from headrace.consume import Batch, Consumer, Failure, Handler
from headrace.core import Conflict

H = TypeVar("H", bound=Handler)


class Headrace:
    """Collects consumers. `headrace node run module:app` runs them."""

    def __init__(self, *, namespace: str | None = None) -> None:
        self.namespace = namespace
        self._consumers: list[Consumer] = []

    @property
    def consumers(self) -> tuple[Consumer, ...]:
        return tuple(self._consumers)

    def consumer(
        self,
        topic: str,
        *,
        name: str | None = None,
        batch: Batch | None = None,
        ordered_by: Literal["partition", "topic"] = "partition",
        start: Literal["earliest", "latest"] = "earliest",
        failure: Failure | None = None,
        concurrency: int = 4,
    ) -> Callable[[H], H]:
        """Makes a function a consumer of a topic; the consumer's name is the function's unless given."""

        def register(handler: H) -> H:
            self.add(
                Consumer(
                    topic=topic,
                    name=name or handler.__name__.replace("_", "-"),
                    handler=handler,
                    batch=batch,
                    ordered_by=ordered_by,
                    start=start,
                    failure=failure or Failure.retry(),
                    concurrency=concurrency,
                    namespace=self.namespace,
                )
            )
            return handler

        return register

    def add(self, consumer: Consumer) -> None:
        """Adds a consumer described elsewhere."""
        if any((known.topic, known.name) == (consumer.topic, consumer.name) for known in self._consumers):
            raise Conflict(f"consumer {consumer.name!r} of topic {consumer.topic!r} is there twice; give one another name")
        self._consumers.append(consumer)
