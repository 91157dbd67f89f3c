"""Every seeded bug is caught by a short run, by the check that is meant for it. Bugs of different checks share a run."""

from __future__ import annotations

import pytest

from headrace.core import Invalid
from headrace.prove import Options, prove
from headrace.prove.bugs import BUGS, replace_code

pytestmark = [pytest.mark.timeout(230), pytest.mark.xdist_group("prove")]

# No bug depends on chance: each waits itself for what it leads to, or happens again and again. The first run has no fault that excuses a
# second holder of a lease, which is what an ack without a fence accepts.
RUNS = (
    Options(
        minutes=0.15,
        faults=["open-transaction", "erase"],
        seed=2,
        rate=30,
        bugs=(
            "serial-cursor",
            "no-fence",
            "local-lease",
            "loose-schedule",
            "no-ledger",
            "no-relay-ledger",
            "first-capture",
            "half-erasure",
            "lost-headers",
            "newest-first",
            "forgotten-key",
            "no-delay",
            "no-pause",
            "double-redrive",
        ),
        stalled_s=2,
        lead_s=1,
        pause_min_s=1,
        fault_scale=0.5,
        lease_s=2,
    ),
    Options(
        minutes=0.1,
        faults=["kill-server"],
        seed=2,
        rate=30,
        bugs=("ack-before-commit", "async-commit", "late-emitted-at", "state-after-output", "interrupted-is-done"),
        stalled_s=3,
        lead_s=2,
        pause_min_s=1,
        lease_s=2,
    ),
)
ON_SPARK = Options(minutes=0.7, faults=["kill-spark"], seed=1, rate=60, bugs=("cursor-before-batch",), spark=True)


@pytest.mark.parametrize(
    "options",
    [*RUNS, pytest.param(ON_SPARK, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
    ids=lambda options: " ".join(options.bugs),
)
def test_seeded_bugs_are_caught_by_the_checks_meant_for_them(options: Options) -> None:
    run = prove(options)
    broken = {result.check for result in run.checks if not result.holds}
    assert {BUGS[name].caught_by for name in options.bugs} <= broken
    # A batch that was not waited for would be missing too.
    assert not options.spark or "all-work-finished" not in broken
    for result in run.checks:
        assert result.holds or (result.smallest and result.smallest.example), f"{result.check} shows no example"


def test_every_bug_has_a_run() -> None:
    assert sorted(name for run in (*RUNS, ON_SPARK) for name in run.bugs) == sorted(BUGS)


def test_edit_of_a_function_ignores_comments_and_white_space_and_fails_if_the_code_is_gone() -> None:
    definition = "begin\n    delete from t\n    -- why\n    where  a = 1;\nend"
    assert replace_code(definition, "delete from t where a = 1;", "null;") == "begin\n    null;\nend"
    with pytest.raises(Invalid, match="adapt the seeded bug"):
        replace_code(definition, "where b = 1", "")
