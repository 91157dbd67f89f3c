"""Random patterns that keep values, and events for them: by a seed, so that a case can be run again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from headrace.lang.condition import Sample
from headrace.lang.ecl import Event, Pattern, PatternError, parse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


@dataclass
class Writer:
    """Writes one pattern; labels that are still free are used up on the way."""

    random: Random
    matches: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)
    free_matches: list[str] = field(default_factory=list)
    free_loops: list[str] = field(default_factory=list)

    def pattern(self) -> str:
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
        return f"capture v = (object -> 'v')::int; {text}"

    def atom(self) -> str:
        registers = [f"{label}.v" for label in self.matches] + [f"{label}.count" for label in self.loops]
        registers += [f"{label}.{word}(v)" for label in self.loops for word in ("sum", "first", "last", "min", "max")]
        kind = self.random.random()
        if kind < 0.5 or (kind >= 0.7 and not registers):
            return self.random.choice("abc")
        if kind < 0.7:
            return self.random.choice(["true", "<v > 2>", "not a"])
        operator, right = self.random.choice(["<", ">=", "=", "<>"]), self.random.choice(["v", "3", "v + 1", "2 * v"])
        return f"<{self.random.choice(registers)} {operator} {right}>"

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
    """A pattern and events; some of them without the captured value, several at the same time."""
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
        payload = {"v": random.randint(0, 5)} if random.random() < 0.9 else {}
        type_ = random.choice("abc")
        events.append(Event(type_, time, Sample(payload, type_, emitted_at=EPOCH + timedelta(microseconds=time))))
    return pattern, events
