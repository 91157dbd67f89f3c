"""The event loop of a process: uvloop's if it is installed, else asyncio's."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import pytest

from headrace.node import event_loop, run_loop


async def loop_module() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


@pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")
def test_loop_is_uvloops_if_it_is_installed() -> None:
    assert run_loop(loop_module()) == "uvloop"


def test_loop_is_asyncios_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "find_spec", lambda _: None)
    assert run_loop(loop_module()) == "asyncio"
