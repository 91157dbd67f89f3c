"""What tracing costs a publisher in Python: CPU of its own process per event, in turns: without the hook (the module of publish with
its looks at the setting taken out), with tracing off, and with it on, by OpenTelemetry's API alone and with its SDK."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import ModuleType

import psycopg
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider

from bench.lab import Lab, surroundings
from bench.result import Figure, report
from headrace.core import Event
from headrace.log.outbox import publishing
from headrace.observe.tracing import set_tracing, switch


class _Unhook(ast.NodeTransformer):
    """Takes out every `if switch.tracer is not None …`."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_If(self, node: ast.If) -> ast.AST | None:
        if "switch.tracer" in ast.unparse(node.test):
            self.removed += 1
            return None
        return self.generic_visit(node)


def unhooked_publishing() -> ModuleType:
    """The module headrace.log.outbox.publishing as it would be without tracing."""
    path = Path(publishing.__file__)
    unhook = _Unhook()
    tree = ast.fix_missing_locations(unhook.visit(ast.parse(path.read_text(encoding="utf-8"))))
    assert unhook.removed == 4
    module = ModuleType("unhooked")
    module.__dict__["__name__"] = publishing.__name__
    exec(compile(tree, str(path), "exec"), module.__dict__)
    return module


@contextmanager
def tracing(provider: object | None) -> Iterator[None]:
    """On with a provider, else off."""
    if provider is None:
        yield
        return
    set_tracing("on")
    switch.tracer._tracer = provider.get_tracer("headrace")  # type: ignore[union-attr, attr-defined]
    try:
        yield
    finally:
        set_tracing("off")


def run(lab: Lab, *, quick: bool) -> None:
    rounds, events = (5, 100) if quick else (41, 300)
    unhooked = unhooked_publishing()
    sides: dict[str, tuple[ModuleType, object | None]] = {
        "without the hook": (unhooked, None),
        "off": (publishing, None),
        "on, API only": (publishing, NoOpTracerProvider()),
        "on, SDK": (publishing, TracerProvider()),
    }
    single: dict[str, list[float]] = {name: [] for name in sides}
    batch: dict[str, list[float]] = {name: [] for name in sides}
    with lab.database("tracing", partitions=1) as target, psycopg.connect(target.dsn) as conn:
        for round_ in range(rounds + 1):
            for name, (module, provider) in sides.items():
                with tracing(provider):
                    one = _cpu_us(lambda module=module: _publish(module, conn, events), events)  # type: ignore[misc]
                    many = _cpu_us(lambda module=module: _publish_many(module, conn, events), events)  # type: ignore[misc]
                conn.rollback()
                if round_:  # The first one warms up.
                    single[name].append(one)
                    batch[name].append(many)
    figures = [
        *_figures("publish", single),
        *_figures("publish_many, per event", batch),
    ]
    report("tracing", surroundings(lab), figures, {"publish_us": single, "publish_many_us": batch})


def _publish(module: ModuleType, conn: psycopg.Connection[object], events: int) -> None:
    for n in range(events):
        module.publish(conn, "bench", "placed", {"n": n}, key="k")


def _publish_many(module: ModuleType, conn: psycopg.Connection[object], events: int) -> None:
    module.publish_many(conn, [Event(topic="bench", type="placed", payload={"n": n}, key="k") for n in range(events)])


def _cpu_us(act: Callable[[], None], events: int) -> float:
    before = time.process_time()
    act()
    return (time.process_time() - before) * 1e6 / events


def _figures(what: str, sides: dict[str, list[float]]) -> Iterator[Figure]:
    """Each side against the one without the hook, by the median of the ratios of rounds that ran next to each other."""
    base = sides["without the hook"]
    for name, values in sides.items():
        ratio = median(value / other for value, other in zip(values, base, strict=True))
        bound = 1.02 if name in ("without the hook", "off") else 2.0
        detail = f"median {median(values):.1f} µs, lowest {min(values):.1f} µs"
        yield Figure(f"{what}: {name}", ratio, bound, at_most=True, detail=detail)
