"""`python -m bench [--quick] [name …]`: all benchmarks, or those named."""

from __future__ import annotations

import argparse
import importlib

from bench.lab import lab

NAMES = (
    "publish",
    "batch",
    "end_to_end",
    "latency",
    "rules",
    "actions",
    "correlate",
    "spark_source",
    "spark_match",
    "spark_correlate",
    "pipeline",
    "recovery",
    "walls",
    "connections",
    "growth",
    "metrics",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="Benchmarks of headrace and of what it is compared with")
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(NAMES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="short rounds, only to check that it runs")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    with lab() as server:
        for name in arguments.names or NAMES:
            importlib.import_module(f"bench.{name}").run(server, quick=arguments.quick)


if __name__ == "__main__":
    main()
