"""Log: topics, their positions, and the way from the outbox into them.

Owns: topics, the log's positions and time partitions. Promises: per topic, positions rise by one and never change;
what is visible is in order; nothing a consumer has not passed is dropped unless told so."""

from headrace.log.reading import head, logged_event, read, tail
from headrace.log.retention import Expired, drop_expired, maintain
from headrace.log.sequencer import Sequenced, Sequencer, sequence
from headrace.log.topics import Clock, Topic, alter_topic, create_topic, drop_topic, get_topic, list_topics

__all__ = [
    "Clock",
    "Expired",
    "Sequenced",
    "Sequencer",
    "Topic",
    "alter_topic",
    "create_topic",
    "drop_expired",
    "drop_topic",
    "get_topic",
    "head",
    "list_topics",
    "logged_event",
    "maintain",
    "read",
    "sequence",
    "tail",
]
