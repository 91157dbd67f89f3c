"""`python -m bench [--quick] [name …]`: all benchmarks, or those named."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from bench.lab import lab
from bench.result import RESULTS

NAMES = (
    "publish",
    "batch",
    "end_to_end",
    "latency",
    "rules",
    "actions",
    "correlate",
    "registers",
    "read",
    "spark_source",
    "spark_match",
    "spark_correlate",
    "spark_lookback",
    "spark_sink",
    "spark_compared",
    "spark_scan",
    "mixed_rules",
    "pipeline",
    "stream_keys",
    "recovery",
    "walls",
    "connections",
    "growth",
    "metrics",
    "tracing",
    "ingest",
    "console",
    "open_consoles",
    "relays",
    "sizing",
    "low_rates",
    "schemas",
)


GUARD = "guard"
"""Only by its name: it measures nothing new, it compares with recorded figures."""
PROTOTYPES = ("write_once",)
"""Only by their names: what was weighed for a decision."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="Benchmarks of headrace and of what it is compared with")
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"one of {', '.join(NAMES)}, or {GUARD}; default: all but {GUARD}"
    )
    parser.add_argument("--quick", action="store_true", help="short rounds, only to check that it runs")
    parser.add_argument("--record", action="store_true", help="with guard: record the figures of this run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="with guard: the folder of the recorded figures")
    parser.add_argument(
        "--case", action="append", metavar="NAME", help="with growth and low_rates: one of its cases; repeat it for several"
    )
    parser.add_argument("--old", type=Path, help="with low_rates: a checkout of an older commit, measured side by side")
    parser.add_argument("--folder", type=Path, help="with growth: keep the server and its data here, and use what is there")
    parser.add_argument(
        "--build-s", type=float, help="with growth: only build the data, for this number of seconds; exit code 75: more to do"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {*NAMES, *PROTOTYPES, GUARD}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}, {GUARD}")
    with lab(arguments.folder) as server:
        for name in arguments.names or NAMES:
            options: dict[str, object] = {}
            if name == GUARD:
                options = {"record": arguments.record, "folder": arguments.results}
            elif name == "growth":
                options = {"cases": arguments.case, "keep": arguments.folder is not None, "build_s": arguments.build_s}
            elif name == "low_rates":
                options = {"old": arguments.old, "cases": arguments.case}
            importlib.import_module(f"bench.{name}").run(server, quick=arguments.quick, **options)


if __name__ == "__main__":
    main()
