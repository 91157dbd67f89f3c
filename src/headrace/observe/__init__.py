"""Observe: what happened, whether all is well, and how much of it there is.

Its sub-rooms:

    tracing/   trace context and spans
    reports/   HTML pages with tables and charts
    history/   the history of an event or action, and why a rule did not fire
    doctor/    checks of a database
    metrics/   the numbers of a database and of a node

Low rooms write spans and reports, so `tracing` and `reports` lie below them; the others read what all rooms wrote and lie above."""
