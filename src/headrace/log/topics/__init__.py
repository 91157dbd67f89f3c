"""Topics: their positions, the way from the outbox into them, and reading them.

Owns: topics, the log's positions and time partitions. Promises: per topic, positions rise by one and never change; events become
visible in order; nothing is dropped before every consumer has passed it, unless forced."""

from headrace.log.topics.sequencer import (
    AppendedEvents as AppendedEvents,
    SequencedTopic as SequencedTopic,
    Sequencer as Sequencer,
    sequence as sequence,
)
from headrace.log.topics.topics import (
    Clock as Clock,
    ExpiredPartition as ExpiredPartition,
    Topic as Topic,
    alter_topic as alter_topic,
    create_topic as create_topic,
    drop_expired as drop_expired,
    drop_topic as drop_topic,
    follow_log as follow_log,
    get_topic as get_topic,
    list_topics as list_topics,
    logged_event_row as logged_event_row,
    maintain_log as maintain_log,
    read_log as read_log,
)
