"""`python -m headrace` runs `headrace`."""

from headrace.cli import main

main()
