"""Traces: the witnesses of analyses, as events one could publish."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import groupby

from headrace.core import print_duration
from headrace.lang.ecl.alphabet import Alphabet, Decision, Example, leaves
from headrace.lang.ecl.events import Event, Output
from headrace.lang.ecl.printer import print_name


@dataclass(frozen=True, slots=True)
class TraceStep:
    """An event (its type and the truths of the conditions that matter), or a timer's firing (`type` is None).

    `time` is in microseconds after the start of the trace. `by_type`: every event of this type does the same here."""

    type: str | None
    truths: tuple[tuple[str, bool | None], ...]
    time: int
    outputs: tuple[Output, ...] = ()
    by_type: bool = False

    def __str__(self) -> str:
        truths = () if self.by_type else self.truths
        shown = f"(timer at {print_duration(self.time)})" if self.type is None else label(Example(self.type, truths))
        tokens = ",".join(output.token for output in self.outputs)
        return f"{shown} → {tokens}" if tokens else shown


@dataclass(frozen=True, slots=True)
class Trace:
    """Steps from a start. No steps: it holds from the start itself."""

    steps: tuple[TraceStep, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        """The events alone, to be fed to an engine; each subject is a mapping of condition text to truth."""
        return tuple(Event(step.type, step.time, dict(step.truths)) for step in self.steps if step.type is not None)

    @property
    def end(self) -> int:
        return self.steps[-1].time if self.steps else 0

    def __str__(self) -> str:
        runs = [(text, len(list(run))) for text, run in groupby(str(step) for step in self.steps)]
        shown = [text if count == 1 else f"{count} × {text}" for text, count in runs]
        return ", ".join(shown) if shown else "(from the start)"


def label(example: Example) -> str:
    """A class of events, in words."""
    truths = {True: "", False: "not ", None: "unknown "}
    type_ = "any other type" if example.type is None else print_name(example.type)
    return " and ".join([type_, *(f"{truths[truth]}<{text}>" for text, truth in example.truths)])


def describe_symbols(alphabet: Alphabet, symbols: AbstractSet[int]) -> list[str]:
    """The classes of events that have one of these symbols, in words: a type alone if its conditions do not matter."""
    decisions: list[tuple[str | None, Decision]] = [*alphabet.types.items(), (None, alphabet.other)]
    whole = [type_ for type_, decision in decisions if set(leaves(decision)) <= symbols]
    partly = {symbol for type_, decision in decisions if type_ not in whole for symbol in leaves(decision)}
    return [label(Example(type_, ())) for type_ in whole] + [
        label(alphabet.examples[symbol]) for symbol in sorted(partly & symbols)
    ]
