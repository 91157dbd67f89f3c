"""Every seeded bug is caught by a short run, by the check it was meant for. Bugs of different checks share a run."""

from __future__ import annotations

import pytest

from headrace.prove import Options, prove
from headrace.prove.bug import BUGS

pytestmark = [pytest.mark.timeout(230), pytest.mark.xdist_group("prove")]

RUNS = (
    Options(minutes=0.2, faults=[], seed=1, bugs=("serial-cursor", "local-lease", "loose-schedule", "no-ledger"), drain_s=3),
    Options(
        minutes=0.4,
        faults=["failpoint", "kill-server"],
        failpoints=["before:write-instances"],
        seed=2,
        bugs=("ack-before-commit", "async-commit"),
        drain_s=10,
    ),
    # By itself: a server that is killed as well leaves too few chances to meet it.
    Options(
        minutes=0.4,
        faults=["failpoint"],
        failpoints=["before:write-instances"],
        seed=2,
        bugs=("state-after-output",),
        drain_s=10,
    ),
    Options(minutes=0.3, faults=["stop-node"], seed=1, bugs=("no-fence",), drain_s=15),
)
ON_SPARK = Options(minutes=0.7, faults=["kill-spark"], seed=1, rate=60, bugs=("cursor-before-batch",), spark=True)


@pytest.mark.parametrize(
    "options",
    [*RUNS, pytest.param(ON_SPARK, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
    ids=lambda run: " ".join(run.bugs),
)
def test_seeded_bugs_are_caught_by_the_checks_meant_for_them(options: Options) -> None:
    proved = prove(options)
    broken = {verdict.check for verdict in proved.verdicts if not verdict.holds}
    assert {BUGS[name].caught_by for name in options.bugs} <= broken
    # A batch that was not waited for would be missing too.
    assert not options.spark or "worked-off" not in broken
    for verdict in proved.verdicts:
        assert verdict.holds or (verdict.smallest and verdict.smallest.example), f"{verdict.check} shows no example"


def test_every_bug_has_its_run() -> None:
    assert sorted(name for run in (*RUNS, ON_SPARK) for name in run.bugs) == sorted(BUGS)
