"""The one tree of errors. SQL raises the same errors by their SQLSTATE.

The docstring of a class says what happened and what to do; the message adds the names and numbers. The exit code of the command
line belongs to a branch: not found 3, conflict 4, invalid 5, problems found 6, everything else 1. A class that sets no `sqlstate`
of its own is raised by Python only."""

from __future__ import annotations

from typing import ClassVar


class HeadraceError(Exception):
    """headrace could not do what it was asked to do. The message says why."""

    sqlstate: ClassVar[str] = "HR000"
    exit_code: ClassVar[int] = 1


class NotFound(HeadraceError):
    """Something with this name does not exist. Check the name and the namespace."""

    sqlstate = "HR100"
    exit_code = 3


class UnknownTopic(NotFound):
    """The namespace has no topic with this name. Check the name, or create the topic."""

    sqlstate = "HR101"


class UnknownConsumer(NotFound):
    """The topic has no consumer with this name. Check the name, or create the consumer."""

    sqlstate = "HR102"


class UnknownDeadLetter(NotFound):
    """The namespace has no dead letter with this number. List the dead letters; it may have been redriven or deleted."""

    sqlstate = "HR103"


class UnknownRule(NotFound):
    """The namespace has no rule with this name. Check the name, or create the rule."""

    sqlstate = "HR120"


class UnknownEvent(NotFound):
    """No event with this id is in a log or in the outbox. Check the id; retention may have dropped the event."""

    sqlstate = "HR121"


class UnknownCorrelator(NotFound):
    """The namespace has no correlator with this name. Check the name, or create the correlator."""

    sqlstate = "HR122"


class UnknownSchedule(NotFound):
    """The namespace has no schedule with this name. Check the name, or create the schedule."""

    sqlstate = "HR130"


class UnknownNamespace(NotFound):
    """There is no namespace with this name, or this role may not see it. Create it, or ask its owner for access."""

    sqlstate = "HR131"


class UnknownRole(NotFound):
    """There is no database role with this name. Create it with `create role`."""

    sqlstate = "HR132"


class Conflict(HeadraceError):
    """The object already exists, or its current state does not allow this."""

    sqlstate = "HR200"
    exit_code = 4


class TopicExists(Conflict):
    """A topic with this name already exists. Choose another name, or alter the topic."""

    sqlstate = "HR201"


class ConsumerExists(Conflict):
    """A consumer with this name already exists with a different order. Choose another name, or drop that consumer first."""

    sqlstate = "HR202"


class TopicInUse(Conflict):
    """The topic has consumers or captured tables. Remove them first, or drop the topic with force."""

    sqlstate = "HR203"


class TooFewPartitions(Conflict):
    """A topic cannot have fewer partitions than it has now. Give a larger number, or create another topic."""

    sqlstate = "HR204"


class MigrationChanged(Conflict):
    """A migration was applied with different text. Install the headrace version that matches the database, then upgrade."""

    sqlstate = "HR205"


class LeaseLost(Conflict):
    """The lease ended before the handler did, so the attempt was rolled back. Raise lease_s, or shorten the handler."""

    sqlstate = "HR206"


class TopicBusy(Conflict):
    """Other transactions hold the topic's log for too long. Try again when no long transaction reads it."""

    sqlstate = "HR207"


class RuleExists(Conflict):
    """A rule with this name already exists. Choose another name, or alter the rule."""

    sqlstate = "HR220"


class CorrelatorExists(Conflict):
    """A correlator with this name already exists. Choose another name, or alter the correlator."""

    sqlstate = "HR221"


class CorrelatorTopicChanged(Conflict):
    """A correlator cannot move to another topic. Create a new correlator for that topic."""

    sqlstate = "HR222"


class ScheduleExists(Conflict):
    """A schedule with this name already exists. Choose another name, or alter the schedule."""

    sqlstate = "HR230"


class NamespaceExists(Conflict):
    """A namespace with this name already exists. Choose another name."""

    sqlstate = "HR231"


class NamespaceInUse(Conflict):
    """The namespace is not empty. Drop what it contains first."""

    sqlstate = "HR232"


class ArchiveBusy(Conflict):
    """Another process is archiving this topic. Wait until it has finished."""

    sqlstate = "HR250"


class ArchiveMismatch(Conflict):
    """An archive file differs from the log or the catalog; nothing was recorded. Archive that day again while the log has it."""

    sqlstate = "HR251"


class Invalid(HeadraceError):
    """The input breaks a rule, and nothing was written. Correct it as the message says."""

    sqlstate = "HR300"
    exit_code = 5


class PayloadTooLarge(Invalid):
    """The payload has more bytes than an event may have. Store the large part elsewhere and publish a reference to it."""

    sqlstate = "HR301"


class PayloadTooDeep(Invalid):
    """The payload is nested more deeply than JSON readers follow. Flatten it, or publish the deep part as a string."""

    sqlstate = "HR302"


class InvalidNumber(Invalid):
    """JSON readers reject a number in the payload: it is not finite, or too large for a double. Publish it as a string."""

    sqlstate = "HR303"


class InvalidEventType(Invalid):
    """The event type is not a valid name. Use letters, digits and _ . : / - and start with a letter or _."""

    sqlstate = "HR304"


class InvalidKey(Invalid):
    """The key is empty or too long. Leave it out, or use a hash of a long key."""

    sqlstate = "HR305"


class InvalidHeaders(Invalid):
    """The headers are not a small JSON object. Put data into the payload."""

    sqlstate = "HR306"


class PositionOutOfRange(Invalid):
    """The position is not in the log: it is not written yet, or retention dropped it. Use earliest, latest or a position within."""

    sqlstate = "HR307"


class InvalidText(Invalid):
    """PostgreSQL cannot store the text: it has a NUL character or half a surrogate pair. Remove it."""

    sqlstate = "HR308"


class InvalidPayload(Invalid):
    """The payload is not a JSON value. Convert it to one first."""

    sqlstate = "HR309"


class InvalidCloudEvent(Invalid):
    """The text is not a CloudEvents 1.0 event in structured JSON. Add or correct the attribute that the message names."""

    sqlstate = "HR311"


class InvalidTime(Invalid):
    """The event's time is infinite or outside the years 1 to 9999. Leave it out to use the current time."""

    sqlstate = "HR312"


class InvalidCron(Invalid):
    """The text is not a cron expression. Write five fields, for example `*/5 * * * *`."""

    sqlstate = "HR330"


class InvalidTimeZone(Invalid):
    """There is no time zone with this name. Use an IANA name, for example Europe/Berlin."""

    sqlstate = "HR331"


class CronNeverFires(Invalid):
    """The cron expression does not fire within fifty years, for example on 30 February. Correct the day or the month."""

    sqlstate = "HR332"


class UnregisteredName(Invalid):
    """The event type or action is not registered, and the namespace accepts registered names only. Register or correct it."""

    sqlstate = "HR340"


class InvalidDefinitionFile(Invalid):
    """The file does not contain valid definitions. Correct the entry that the message names."""

    sqlstate = "HR341"


class InvalidOutputs(Invalid):
    """A correlator's output is neither an action nor an event. Give each token one of the two."""

    sqlstate = "HR342"


class FeedbackLoop(Invalid):
    """The correlator's own events lead back to it. Publish to another topic or type, or allow the loop explicitly."""

    sqlstate = "HR343"


class Forbidden(HeadraceError):
    """This role may not do this in this namespace. Use another role, or ask the owner for a grant."""

    sqlstate = "HR400"


class ProblemsFound(HeadraceError):
    """The command ran to its end and found problems. See its output."""

    exit_code = 6


class DatabaseUnavailable(HeadraceError):
    """The database is unreachable. Check its address and that it runs, then try again."""


class ShardUnavailable(DatabaseUnavailable):
    """The shard of this key is unreachable; the other shards keep working. Try again when it is back."""


class NotMigrated(HeadraceError):
    """The database has no headrace schema, or an older one. Run `headrace migrate`."""


def error_classes(root: type[HeadraceError] = HeadraceError) -> list[type[HeadraceError]]:
    """An error class and everything below it, each class before its subclasses."""
    return [root, *(error for child in root.__subclasses__() for error in error_classes(child))]


def error_for_sqlstate(sqlstate: str) -> type[HeadraceError] | None:
    """The error class of a SQLSTATE: its branch if the class is unknown, None if the SQLSTATE is not ours."""
    if not sqlstate.startswith("HR"):
        return None
    # In reverse: a class that inherits its SQLSTATE must not take the place of its base.
    known = {error.sqlstate: error for error in reversed(error_classes())}
    return known.get(sqlstate) or known.get(sqlstate[:3] + "00") or HeadraceError
