"""The guard of CPU per event can fail: seeded with a recorded figure that is too low."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
