"""Demo: a year of flights out of New York, played through headrace.

Owns: the newcomer's first look. Promises: a server and database of its own, fresh each time; real events through the real
paths (publish in transactions, outbox, sequencer, consumers, rules and handlers in another process); at the end the numbers
are checked.

The acts, one file each: flights (the events), stage (server, database, node), play (publishing), watch (how far it is),
rules (what must come of rules.yaml), verify (do the numbers add up). The application is `headrace.demo:app`."""

from headrace.demo.application import app
from headrace.demo.play import Demo, Figures
from headrace.demo.rules import RuleFigures
from headrace.demo.stage import Stage, own_stage, stage_on
from headrace.demo.verify import Airport, Proof
from headrace.demo.watch import Progress

__all__ = [
    "Airport",
    "Demo",
    "Figures",
    "Progress",
    "Proof",
    "RuleFigures",
    "Stage",
    "app",
    "own_stage",
    "stage_on",
]
