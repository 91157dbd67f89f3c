"""Topics: their positions, the way from the outbox into them, and reading them.

Owns: topics, the log's positions and time partitions. Promises: per topic, positions rise by one and never change; events become
visible in order; nothing is dropped before every consumer has passed it, unless forced."""

from headrace.log.topics.sequencer import AppendedEvents, SequencedTopic, Sequencer, sequence
from headrace.log.topics.topics import (
    Clock,
    ExpiredPartition,
    Topic,
    alter_topic,
    create_topic,
    drop_expired,
    drop_topic,
    follow_log,
    get_topic,
    list_topics,
    logged_event_row,
    maintain_log,
    read_log,
)

__all__ = [
    "AppendedEvents",
    "Clock",
    "ExpiredPartition",
    "SequencedTopic",
    "Sequencer",
    "Topic",
    "alter_topic",
    "create_topic",
    "drop_expired",
    "drop_topic",
    "follow_log",
    "get_topic",
    "list_topics",
    "logged_event_row",
    "maintain_log",
    "read_log",
    "sequence",
]
