"""One shard down: the nodes go on with the other, and what was published to the dead one comes through when it is back."""

from __future__ import annotations

import pytest

from headrace.db import Shards, Target
from headrace.prove import Options, prove
from headrace.prove.spread import share
from headrace.prove.workload import transaction

pytestmark = pytest.mark.xdist_group("prove")


def test_producer_spreads_its_keys_and_no_event_has_two_shards() -> None:
    shards = Shards([Target("main", "dbname=one"), Target("shard2", "dbname=two")])
    for op in range(1, 60):
        whole = transaction(5, "producer-spread", op)
        shares = [share(whole, shards, name) for name in ("main", "shard2")]
        assert sorted(one.n for part in shares for one in part.events) == [one.n for one in whole.events]
    keys = {one.key for op in range(1, 60) for one in transaction(5, "producer-spread", op).events}
    assert {shards.shard_of(key).name for key in keys} == {"main", "shard2"}


@pytest.mark.timeout(200)
@pytest.mark.lane("pg18")
def test_one_shard_down_stops_no_other_and_it_catches_up() -> None:
    proved = prove(Options(minutes=0.2, faults=["shard-down"], seed=5, rate=60))
    for verdict in proved.verdicts:
        assert verdict.holds or verdict.check == "rate-returns", f"{verdict.check}: {verdict.smallest}"
    examined = {verdict.check: verdict.examined for verdict in proved.verdicts}
    assert examined["other-shards-go-on"] == len(proved.evidence.fallen) == 1
    (other,) = proved.evidence.others
    down = proved.evidence.fallen[0]
    refused = [one for one in other.operations if "failed" in one.outcomes and one.acknowledged]
    assert refused, "nobody has met the shard that was down"
    assert any(one.ended_at > down.healed_at for one in other.operations if one.acknowledged), "nothing came after it was back"
    assert any(down.began_at < one.began_at < down.healed_at for one in proved.evidence.operations if one.acknowledged)
    assert all(len(found) > 10 for found in (other.consumed, other.fired, other.effects, other.pushed))
