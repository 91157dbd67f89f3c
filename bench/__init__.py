"""Benchmarks: headrace and what it is compared with, on one server, in one run, in turns.

`python -m bench` starts its own PostgreSQL with durable settings, runs every benchmark, prints ratios with their targets and
writes results/<name>.json. The machine is part of every result: cores, load, settings, and the CPU time each event cost,
which varies less than rates do."""
