"""The target by itself: every event is one line, whatever was written before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from headrace_target_file import FileTarget, check_options, open_target

from headrace.core import DeliveryError, TargetRefused
from headrace.relays import Message


def message(position: int, *, body: bytes = b"{}", is_redriven: bool = False, relay_uid: str = "u1") -> Message:
    return Message(
        relay="audit",
        topic="orders",
        partition=0,
        position=position,
        event_id=UUID(int=position),
        event_type="order.placed",
        key=None,
        emitted_at=datetime(2026, 1, 2, tzinfo=UTC),
        body=body,
        content_type="application/json",
        headers={},
        relay_uid=relay_uid,
        is_redriven=is_redriven,
    )


@pytest.fixture
async def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileTarget:
    monkeypatch.setenv("HEADRACE_FILE_TARGET", str(tmp_path))
    opened = open_target("audit", {"line_bytes_max": 200_000}, {})
    await opened.open()
    return opened


def positions(folder: Path) -> Sequence[int]:
    return [json.loads(line)["position"] for line in (folder / "audit.0.jsonl").read_bytes().splitlines()]


async def test_events_that_are_delivered_again_are_not_written_again(target: FileTarget, tmp_path: Path) -> None:
    await target.deliver([message(1), message(2)])
    await target.deliver([message(1), message(2), message(3, body=b'{"total":\n1.10}')])
    assert positions(tmp_path) == [1, 2, 3]
    assert b'"body":{"total": 1.10}' in (tmp_path / "audit.0.jsonl").read_bytes()


@pytest.mark.parametrize("body", [b"{}", b'"' + b"x" * 150_000 + b'"'], ids=["short", "longer than a block"])
async def test_half_a_line_is_cut_off_and_written_again(target: FileTarget, tmp_path: Path, body: bytes) -> None:
    await target.deliver([message(1, body=body), message(2, body=body)])
    file = tmp_path / "audit.0.jsonl"
    file.write_bytes(file.read_bytes()[:-5])
    await target.deliver([message(2, body=body), message(3, body=body)])
    assert positions(tmp_path) == [1, 2, 3]


async def test_redriven_dead_letter_comes_at_the_end_and_once(target: FileTarget, tmp_path: Path) -> None:
    await target.deliver([message(1), message(3)])
    for _ in range(2):
        await target.deliver([message(2, is_redriven=True)])
    await target.deliver([message(3), message(4)])
    assert positions(tmp_path) == [1, 3, 2, 4]


async def test_file_of_another_relay_is_not_touched(target: FileTarget, tmp_path: Path) -> None:
    await target.deliver([message(1)])
    with pytest.raises(DeliveryError, match="another relay"):
        await target.deliver([message(2, relay_uid="u2")])
    assert positions(tmp_path) == [1]


async def test_too_large_event_is_refused(target: FileTarget, tmp_path: Path) -> None:
    with pytest.raises(TargetRefused, match="line_bytes_max is 200000"):
        await target.deliver([message(1, body=b" " * 200_001)])


def test_options_reach_no_other_folder() -> None:
    assert check_options({"file": "{topic}.jsonl"}) == []
    for name in ("../secrets", "a/b", ".profile"):
        assert len(check_options({"file": name})) == 1
    assert "did you mean 'file'" in check_options({"fil": "x"})[0]
