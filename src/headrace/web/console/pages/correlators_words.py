"""Words of the pages of correlators: what a key waits for, and its shortest way to an output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from headrace.lang.ecl import Trace
from headrace.web.console.texts import format_seconds

WAITS_MAX = 12
"""Classes of events that are listed; a pattern with many conditions has more than anybody reads."""


def waits_words(events: Sequence[str]) -> list[str]:
    """The classes of events that change a state."""
    left = len(events) - WAITS_MAX
    return [*events[:WAITS_MAX], *([f"and {left} more"] if left > 0 else [])]


def trace_words(trace: Trace | None) -> list[str] | None:
    """A trace step by step; None where no output can be reached, empty where it is reached already."""
    if trace is None:
        return None
    texts = []
    for step in trace.steps:
        pushed = ", ".join(output.token for output in step.outputs)
        text = f"nothing more until {format_seconds(step.time / 1_000_000)} from now" if step.type is None else str(step)
        texts.append(f"{text} → {pushed}" if pushed and step.type is None else text)
    runs = [(text, len(list(run))) for text, run in groupby(texts)]
    return [text if count == 1 else f"{count} × {text}" for text, count in runs]
