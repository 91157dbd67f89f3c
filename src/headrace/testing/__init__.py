"""Testing: an application's events, rules, correlators, schedules, consumers and handlers in a test, with no background process.

Owns: throw-away databases, and the steps that a node would run, one after the other in the test's own thread. Promises: what the
kit runs is the code that nodes run; a database per test takes at most 0.2 s on the embedded server; nothing is imported before it is used, since pytest
loads `headrace.testing.plugin` for everybody who has headrace installed."""

from typing import TYPE_CHECKING

from headrace.lazy_names import lazy_names

if TYPE_CHECKING:
    from headrace.testing.databases import DatabaseServer as DatabaseServer
    from headrace.testing.kit import (
        Kit as Kit,
        RuleFiring as RuleFiring,
        SentAction as SentAction,
        TransactionKit as TransactionKit,
        make_action as make_action,
        make_event as make_event,
    )
    from headrace.testing.steps import RunCounts as RunCounts
else:
    __getattr__ = lazy_names(__name__, "databases", "kit", "steps")
