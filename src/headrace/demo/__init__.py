"""Demo: a year of flights out of New York, published through headrace.

Promises: a server and database of its own, new each time; real events through the real paths (publish in transactions, outbox,
sequencer, consumers, rules and handlers in another process); at the end the numbers are checked.

environment: server, database and node. run: publishing, with a crash and a retry. definitions: rules and correlators, and what they
must fire and push. verify: the checks, and the same again on Spark. The application is `headrace.demo:app`."""

from headrace.demo.application import app as app
from headrace.demo.environment import (
    Environment as Environment,
    open_environment_on as open_environment_on,
    open_own_environment as open_own_environment,
    require_packages as require_packages,
)
from headrace.demo.run import Demo as Demo, DemoResult as DemoResult, Progress as Progress
