"""The guard of CPU per event can fail: seeded with a recorded figure that is too low, and with steps that take longer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from bench.lab import lab

from bench import guard as guard_bench

ROOT = Path(__file__).parents[2]
STEPS = {"publish", "sequence", "consume", "match", "correlate", "action"}


def guard(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", "guard", "--quick", "--results", str(folder), *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_guard_passes_with_its_own_figures_and_fails_after_a_slowdown(tmp_path: Path) -> None:
    recorded = guard(tmp_path, "--record")
    assert recorded.returncode == 0, recorded.stderr
    content = json.loads((tmp_path / "guard.json").read_text())
    assert set(content["ratios"]) == STEPS
    # As if sequencing had cost a third when it was recorded. The others get room: a quick run is a rough one.
    ratios = {step: ratio * (0.3 if step == "sequence" else 100) for step, ratio in content["ratios"].items()}
    (tmp_path / "guard.json").write_text(json.dumps({**content, "ratios": ratios}))
    failed = guard(tmp_path)
    assert failed.returncode == 1
    assert "CPU per event has risen: sequence." in failed.stderr


def slowed(step: Callable[[guard_bench.Steps], Awaitable[int]]) -> Callable[[guard_bench.Steps], Awaitable[int]]:
    """The step, with a millisecond more of CPU for each event."""

    async def slowed_step(steps: guard_bench.Steps) -> int:
        events = await step(steps)
        end = time.process_time() + events / 1000
        while time.process_time() < end:
            pass
        return events

    return slowed_step


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_guard_names_every_step_that_has_become_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab() as server:
        monkeypatch.setattr(guard_bench, "QUICK", guard_bench.Plan(rounds=1, events=200))
        monkeypatch.setattr(guard_bench, "AGAIN", 0)
        guard_bench.run(server, quick=True, record=True, folder=tmp_path)
        for step in STEPS:
            monkeypatch.setattr(guard_bench.Steps, step, slowed(getattr(guard_bench.Steps, step)))
        with pytest.raises(SystemExit) as failure:
            guard_bench.run(server, quick=True, folder=tmp_path)
    named = str(failure.value).partition("has risen: ")[2].partition(". ")[0]
    assert set(named.split(", ")) == STEPS


def test_a_step_has_risen_only_above_fifteen_percent() -> None:
    recorded = dict.fromkeys(STEPS, 2.0)
    assert guard_bench._risen(dict.fromkeys(STEPS, 2.29), recorded) == []
    assert guard_bench._risen(dict.fromkeys(STEPS, 1.0), recorded) == []
    figures = dict.fromkeys(STEPS, 2.0) | {"match": 2.31}
    assert guard_bench._risen(figures, recorded) == ["match"]
