"""Series are bounded, whatever names people choose, and a hostile name stays inside its label."""

from __future__ import annotations

from headrace.core import DurationHistogram
from headrace.observe.metrics import Sample, metric_family, render
from headrace.observe.metrics.families import SERIES_MAX, limit_series
from headrace.observe.metrics.prometheus import limit_histograms


def test_series_beyond_the_maximum_are_combined() -> None:
    lag, age = metric_family("headrace_consumer_lag_events"), metric_family("headrace_consumer_lag_seconds")
    for family, rest in ((lag, 3 + 4 + 5), (age, 5)):
        samples = [Sample(family, ("n", "t", f"c{n}"), n) for n in range(1, 6)]
        limited = limit_series(family, samples, series_max=2)
        assert limited == [*samples[:2], Sample(family, ("other", "other", "other"), rest)]
        assert limit_series(family, samples, series_max=5) == samples


def test_a_scrape_has_no_more_series_than_the_maximum() -> None:
    family = metric_family("headrace_sequenced_events_total")
    text = render({"main": [Sample(family, ("default", f"t{n}"), 1) for n in range(SERIES_MAX * 3)]}).decode()
    lines = [line for line in text.splitlines() if line.startswith("headrace_sequenced_events_total{")]
    assert len(lines) == SERIES_MAX + 1
    assert f'headrace_sequenced_events_total{{namespace="other",shard="main",topic="other"}} {SERIES_MAX * 2:.1f}' in lines


def test_histograms_beyond_the_maximum_are_added_up() -> None:
    durations = {("action", f"a{n}"): DurationHistogram() for n in range(100)}
    for histogram in durations.values():
        histogram.observe(0.003)
    limited = limit_histograms(durations, series_max=10)
    assert len(limited) == 11 and sum(limited["other", "other"].counts) == 90


def test_hostile_names_stay_in_their_label() -> None:
    family = metric_family("headrace_dead_letters")
    reason = 'x"} 1\nheadrace_node_up{node="evil"} 0\\'
    text = render({"main": [Sample(family, ("default", "event", reason), 1)]}).decode()
    assert not any(line.startswith("headrace_node_up") for line in text.splitlines())
    assert r'reason="x\"} 1\nheadrace_node_up{node=\"evil\"} 0\\"' in text


def test_durations_fall_into_the_bucket_that_ends_at_or_above_them() -> None:
    histogram = DurationHistogram()
    histogram.observe(0.001)
    histogram.count_calls(0.0022, 2)
    histogram.observe(1e9)
    histogram.count_calls(0.5, 0)
    cumulative = dict(histogram.cumulative())
    assert (cumulative["0.001"], cumulative["0.0025"], cumulative["300.0"], cumulative["+Inf"]) == (1, 3, 3, 4)
    histogram.count_calls(0.4, 2)
    assert dict(histogram.cumulative())["0.25"] == 5
