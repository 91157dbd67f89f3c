"""`python -m bench [--quick] [name …]`: all benchmarks, or those named."""

from __future__ import annotations

import argparse
import importlib

from bench._lab import lab

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
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description="headrace beside what it is compared with")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="short rounds, to see that it runs; not for figures")
    given = parser.parse_args()
    unknown = set(given.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    with lab() as server:
        for name in given.names or NAMES:
            importlib.import_module(f"bench.{name}").run(server, quick=given.quick)


if __name__ == "__main__":
    main()
