"""Relays to files: each event is a line of JSON, exactly once.

The operator of a node names the folder in the variable HEADRACE_FILE_TARGET. Whoever writes a relay names only a file in it, because a
relay must not reach other files of the node.

Exactly once: every line has the highest position that was delivered so far. A delivery reads the last line under a lock, and leaves out
the events that the file has. A crash in the middle of a write leaves half a line, which the next delivery cuts off."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from headrace.core import JSON, DeliveryError, TargetRefused
from headrace.relays import Message, Option, Options, fill_template, find_mistakes

OPTIONS: Final[Mapping[str, Option]] = {
    "file": Option("template", default="{relay}.{partition}.jsonl"),
    "line_bytes_max": Option("integer", default=1_000_000, at_least=1),
}
BLOCK_BYTES: Final = 65_536


def check_options(options: Mapping[str, JSON]) -> list[str]:
    """A message for each mistake."""
    mistakes = find_mistakes(OPTIONS, options)
    name = options.get("file")
    if isinstance(name, str) and ("/" in name or name.startswith(".")):
        mistakes.append("option 'file' must be the name of a file, without a folder and without a dot at its start")
    return mistakes


def open_target(relay_name: str, options: Mapping[str, JSON], secrets: Mapping[str, str]) -> FileTarget:
    """The files of a relay."""
    return FileTarget(Options(OPTIONS, options))


class Line(msgspec.Struct):
    """A line of the file."""

    relay_uid: str
    position: int
    delivered: int
    """The highest position in the file up to this line. It is above `position` for a dead letter that was sent again."""
    event_id: str
    type: str
    key: str | None
    emitted_at: str
    body: msgspec.Raw


class FileTarget:
    """The files of one relay."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._folder = Path()

    async def open(self) -> None:
        self._folder = find_folder()

    async def deliver(self, messages: Sequence[Message]) -> None:
        limit = self._options.integer("line_bytes_max")
        for message in messages:
            if len(message.body) > limit:
                raise TargetRefused(f"the body has {len(message.body)} bytes, and line_bytes_max is {limit}")
        # The event loop serves other relays while the disk writes.
        await asyncio.to_thread(self._append, messages)

    async def close(self) -> None:
        """Nothing stays open between deliveries."""

    def _append(self, messages: Sequence[Message]) -> None:
        path = self._folder / fill_template(self._options.text("file"), messages[0])
        try:
            with path.open("a+b") as file:
                # Closing the file releases the lock.
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(new_lines(path.name, read_last_line(file), messages))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DeliveryError(f"{path.name} cannot be written: {error.strerror}") from None


def find_folder() -> Path:
    folder = Path(os.environ.get("HEADRACE_FILE_TARGET", "/nonexistent"))
    if not folder.is_dir():
        raise DeliveryError("the variable HEADRACE_FILE_TARGET of this node does not name a folder; set it and restart the node")
    return folder


def new_lines(file_name: str, last: Line | None, messages: Sequence[Message]) -> bytes:
    """The lines of those messages that the file does not have."""
    if last is not None and last.relay_uid != messages[0].relay_uid:
        raise DeliveryError(f"{file_name} has the events of another relay; give this relay another file")
    delivered = -1 if last is None else last.delivered
    lines = []
    for message in messages:
        # A redriven event has a position that the file has passed. It is there already if it is the last line.
        is_redriven = message.is_redriven and (last is None or last.event_id != str(message.event_id))
        if message.position > delivered or is_redriven:
            delivered = max(delivered, message.position)
            lines.append(encode_line(message, delivered))
    return b"".join(lines)


def encode_line(message: Message, delivered: int) -> bytes:
    line = Line(
        relay_uid=message.relay_uid,
        position=message.position,
        delivered=delivered,
        event_id=str(message.event_id),
        type=message.event_type,
        key=message.key,
        emitted_at=message.emitted_at.isoformat(),
        # In JSON a line break is never inside of a text, so a space means the same.
        body=msgspec.Raw(message.body.replace(b"\n", b" ")),
    )
    return msgspec.json.encode(line) + b"\n"


def read_last_line(file: IO[bytes]) -> Line | None:
    """The last whole line of a file; cuts off what comes after it."""
    start = end = file.seek(0, os.SEEK_END)
    tail = b""
    while start and tail.count(b"\n") < 2:
        start = max(start - BLOCK_BYTES, 0)
        file.seek(start)
        tail = file.read(end - start)
    lines, _, half = tail.rpartition(b"\n")
    if half:
        file.truncate(end - len(half))
    last = lines.rpartition(b"\n")[2]
    return msgspec.json.decode(last, type=Line) if last else None
