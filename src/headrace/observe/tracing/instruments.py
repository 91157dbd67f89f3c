"""The four metrics of OpenTelemetry's messaging conventions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from opentelemetry.metrics import get_meter

OPERATION_TYPE = "messaging.operation.type"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""As the conventions advise."""


class MessagingInstruments:
    """Records what publishers and handlers do."""

    def __init__(self) -> None:
        meter = get_meter("headrace")
        self._operation_duration = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Time that publishing events, sending an action or reading the log took.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self._sent_messages = meter.create_counter(
            "messaging.client.sent.messages", unit="{message}", description="Events published and actions sent."
        )
        self._consumed_messages = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Events and actions delivered to handlers, and events read from the log.",
        )
        self._process_duration = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Time that a handler took for an event, a batch or an action.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )

    def record_sent(self, duration_s: float, messages: int, attributes: Mapping[str, str]) -> None:
        """Records an operation of a publisher."""
        self._operation_duration.record(duration_s, attributes)
        # Only the histogram has the type among its attributes.
        self._sent_messages.add(messages, {name: attributes[name] for name in attributes if name != OPERATION_TYPE})

    def record_received(self, duration_s: float, messages: int, attributes: Mapping[str, str]) -> None:
        """Records a read of the log."""
        self._operation_duration.record(duration_s, {**attributes, OPERATION_TYPE: "receive"})
        self._consumed_messages.add(messages, attributes)

    def record_processed(self, duration_s: float, messages: int, attributes: Mapping[str, str]) -> None:
        """Records a call of handlers."""
        self._process_duration.record(duration_s, attributes)
        self._consumed_messages.add(messages, attributes)


@cache
def messaging_instruments() -> MessagingInstruments:
    """Those of the process: OpenTelemetry cannot remove an instrument."""
    return MessagingInstruments()
