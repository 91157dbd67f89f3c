"""Random patterns that keep values, and events for them: by a seed, so that a case can be run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from tests.lang.ecl.oracles import facts_of

from headrace.lang.condition import Json, Sample
from headrace.lang.ecl import Event, Pattern, PatternError, compile, make_batch, parse, read_captured

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


CAPTURES = {
    "v": "(object -> 'v')::int",
    "n": "(object -> 'n')::numeric",
    "s": "object ->> 's'",
    "f": "(object -> 'f')::boolean",
    "w": "emitted_at",
    "m": "(object ->> 'm')::timestamptz",
}
"""Captures of every type; `v` is in all patterns."""
NUMBERS = (
    0,
    1,
    Decimal("0.5"),
    Decimal("-2.25"),
    Decimal("1.10"),
    Decimal("84.040"),
    10**18,
    Decimal("1e-18"),
    10**30,
    "7",
    None,
)
TEXTS = ("", "a", "A", "é", "😀", "it's", 'a"b', "a\\b", "a\nb", "12", 12, True, ["x", 1.5], {"k": None}, "x" * 1001, None)
TRUTHS = (True, False, True, False, "true", 1, None)
MOMENTS = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.25+02:00", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", 5, None)


@dataclass
class Writer:
    """Writes one pattern; labels that are still free are used up on the way."""

    random: Random
    others: list[str] = field(default_factory=list)
    matches: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    free_matches: list[str] = field(default_factory=list)
    free_loops: list[str] = field(default_factory=list)

    def pattern(self) -> str:
        self.others = [name for name in CAPTURES if name != "v" and self.random.random() < 0.25]
        self.matches = [f"t{number}" for number in range(self.random.randint(0, 3))]
        self.loops = [f"l{number}" for number in range(self.random.randint(0, 2))]
        self.free_matches, self.free_loops = list(self.matches), list(self.loops)
        text = f"push(o) {{{self.expr(3)}}}"
        if self.random.random() < 0.5:
            text = f"repeat {{{text}}}"
        while self.free_matches:
            text = f"parallel {{{text}, repeat {{{self.predicate()} as {self.free_matches.pop()}}}}}"
        while self.free_loops:
            text = f"parallel {{{text}, repeat {{loop(3) as {self.free_loops.pop()} {{{self.predicate()}}}}}}}"
        if self.random.random() < 0.3:
            text = f"each({self.random.randint(1, 4)}) {{{text}}}"
        return "".join(f"capture {name} = {CAPTURES[name]}; " for name in ("v", *self.others)) + text

    def atom(self) -> str:
        registers = [f"{label}.v" for label in self.matches] + [f"{label}.count" for label in self.loops]
        registers += [f"{label}.{word}(v)" for label in self.loops for word in ("sum", "first", "last", "min", "max")]
        kind = self.random.random()
        if kind < 0.5 or (kind >= 0.7 and not registers):
            return self.random.choice("abc")
        if kind < 0.7:
            return self.random.choice(["true", "<v > 2>", "not a"])
        if self.others and self.random.random() < 0.4:
            return f"<{self.other_comparison()}>"
        operator, right = self.random.choice(["<", ">=", "=", "<>"]), self.random.choice(["v", "3", "v + 1", "2 * v"])
        return f"<{self.random.choice(registers)} {operator} {right}>"

    def other_comparison(self) -> str:
        """A register of another type than v's, compared with a value of the event."""
        name = self.random.choice(self.others)
        registers = [f"{label}.{name}" for label in self.matches]
        words = ["first", "last", *(["min", "max"] if name != "f" else []), *(["sum"] if name == "n" else [])]
        registers += [f"{label}.{word}({name})" for label in self.loops for word in words]
        operators = ["=", "<>", "is distinct from"] if name == "f" else ["<", ">=", "=", "<>", "is distinct from"]
        return f"{self.random.choice(registers)} {self.random.choice(operators)} {self.random.choice([name, f'coalesce({name}, {name})'])}"

    def predicate(self) -> str:
        if self.random.random() < 0.6:
            return self.atom()
        return f"({self.atom()} {self.random.choice(['and', 'or'])} {self.atom()})"

    def expr(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.2:
            return self.labelled(self.predicate(), 0.6)
        kind = self.random.choice(["together", "sequential", "chain", "count", "unless", "within", "push", "modes", "rounds"])
        parts = {"together": self.random.randint(1, 3), "sequential": self.random.randint(1, 3), "chain": 0, "count": 0}
        inner = [self.expr(depth - 1) for _ in range(parts.get(kind, 1))]
        match kind:
            case "together":
                return f"{self.random.choice(['accumulate', 'select', 'select*'])} {{{', '.join(inner)}}}"
            case "sequential":
                return f"sequential {{{', '.join(inner)}}}"
            case "chain":
                steps = [
                    self.labelled(self.random.choice(["a", "b", "a or b", "<v > 1>"]), 0.3)
                    for _ in range(self.random.randint(2, 4))
                ]
                return f"sequential {{{', next '.join(steps)}}}"
            case "count":
                return f"count({self.random.randint(1, 4)}, {self.random.randint(1, 5)} s) {{{self.predicate()}}}"
            case "unless":
                return f"do {{{inner[0]}}} unless {{{self.expr(depth - 1)}}}"
            case "within":
                return f"within {self.random.randint(1, 5)} s {{{inner[0]}}}"
            case "push":
                return f"push({self.random.choice('xyz')}) {{fail {{{inner[0]}}}}}"
            case "modes":
                return f"in (a) do {{{inner[0]}}} in (b) do {{{self.expr(depth - 1)}}}"
            case _:
                return self.rounds(inner[0])

    def rounds(self, body: str) -> str:
        if self.free_loops:
            return f"loop{self.random.choice(['', '(2)', '(3)'])} as {self.free_loops.pop()} {{{body}}}"
        return f"{self.random.choice(['repeat', 'loop(2)', 'persist(2)', 'repeat(3)', 'persist'])} {{{body}}}"

    def labelled(self, predicate: str, chance: float) -> str:
        if self.free_matches and self.random.random() < chance:
            return f"{predicate} as {self.free_matches.pop()}"
        return predicate


def make_case(seed: int) -> tuple[Pattern, list[Event]]:
    """A pattern and events; some of them without the captured values or with odd ones, several at the same time."""
    random = Random(seed)
    while True:
        try:
            pattern = parse(Writer(random).pattern())
            break
        except PatternError as error:
            # Only a label that a chain may not read there.
            assert "right after" in str(error), error
    time, events = 0, []
    for _ in range(25):
        time += random.choice([0, 300_000, SECOND, 2 * SECOND])
        payload: dict[str, Json] = {"v": random.randint(0, 5)} if random.random() < 0.9 else {}
        for name, values in (("n", NUMBERS), ("s", TEXTS), ("f", TRUTHS), ("m", MOMENTS)):
            if random.random() < 0.9:
                payload[name] = random.choice(values)
        type_ = random.choice("abc")
        events.append(Event(type_, time, Sample(payload, type_, emitted_at=EPOCH + timedelta(microseconds=time))))
    return pattern, events


def captured_by(pattern: Pattern, events: Sequence[Event], silence_us: int | None = None) -> tuple[Mapping[str, object], ...]:
    """What the outputs carry of the registers, and those of a silence after the last event: by one batch in this process."""
    table = compile(pattern)
    if table.program is None:
        return ()
    batch = make_batch(table, 100)
    for position, event in enumerate(events):
        assert batch.step("k", position, (), event.time, facts_of(table.program, event))
    if silence_us is not None:
        assert batch.tick("k", events[-1].time + silence_us)
    return read_captured(output.values for output in batch.outputs)
