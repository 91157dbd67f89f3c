"""Command line: parse, call, print.

Owns: the commands, their options and their output. Promises: results go to standard output (with `--json` one JSON document,
or one per line for a stream), everything else to standard error; exit codes 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict,
5 invalid, 6 ran and found problems; no traceback for an error of headrace."""

from headrace.cli.program import app as app, main as main
