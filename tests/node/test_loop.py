"""The event loop of a process: uvloop's where it is installed, asyncio's where it is not."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import pytest

from headrace.node import event_loop as _loop
from headrace.node import run_loop


async def its_module() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


@pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed")
def test_loop_is_uvloops_where_it_is_installed() -> None:
    assert run_loop(its_module()) == "uvloop"


def test_loop_is_asyncios_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loop, "find_spec", lambda _: None)
    assert run_loop(its_module()) == "asyncio"
