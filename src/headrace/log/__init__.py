"""Log: events from the caller's transaction into positions, and everything that reads or keeps them there.

Its sub-rooms, from low to high:

    outbox/    publish and capture, in the caller's own transaction
    topics/    topics, their positions, the sequencer, reading rows, retention
    archive/   closed time partitions as Parquet files; replay and erasure
    arrow/     log and archive as Arrow tables, as one"""
