"""The one tree of errors. The docstring of a class is its explanation; SQL raises the same thing by its SQLSTATE.

Exit codes of the command line hang on the branches: not found 3, conflict 4, invalid 5, found problems 6, all else 1.
"""

from __future__ import annotations

from typing import ClassVar


class HeadraceError(Exception):
    """Something headrace was asked to do did not happen."""

    sqlstate: ClassVar[str] = "HR000"
    exit_code: ClassVar[int] = 1


class NotFound(HeadraceError):
    """The named thing does not exist."""

    sqlstate = "HR100"
    exit_code = 3


class UnknownTopic(NotFound):
    """There is no topic of this name in the namespace."""

    sqlstate = "HR101"


class UnknownConsumer(NotFound):
    """The topic has no consumer of this name."""

    sqlstate = "HR102"


class UnknownSchedule(NotFound):
    """There is no schedule of this name in the namespace."""

    sqlstate = "HR130"


class UnknownNamespace(NotFound):
    """There is no namespace of this name, or none that this role may see."""

    sqlstate = "HR131"


class UnknownRole(NotFound):
    """There is no database role of this name."""

    sqlstate = "HR132"


class UnknownRule(NotFound):
    """There is no rule of this name in the namespace."""

    sqlstate = "HR120"


class UnknownCorrelator(NotFound):
    """There is no correlator of this name in the namespace."""

    sqlstate = "HR122"


class UnknownEvent(NotFound):
    """There is no event of this id, neither in a log nor on its way there."""

    sqlstate = "HR121"


class UnknownDeadLetter(NotFound):
    """There is no dead letter of this number in the namespace."""

    sqlstate = "HR103"


class Conflict(HeadraceError):
    """The thing exists already, or is in a state that does not allow this."""

    sqlstate = "HR200"
    exit_code = 4


class TopicExists(Conflict):
    """A topic of this name is already there."""

    sqlstate = "HR201"


class ConsumerDiffers(Conflict):
    """A consumer of this name is already there, with another order."""

    sqlstate = "HR202"


class TopicInUse(Conflict):
    """The topic has consumers, so it is not dropped without force."""

    sqlstate = "HR203"


class FewerPartitions(Conflict):
    """The number of partitions of a topic can only be raised."""

    sqlstate = "HR204"


class MigrationChanged(Conflict):
    """A migration that was applied has other text now; the database and this version do not belong together."""

    sqlstate = "HR205"


class ArchiveBusy(Conflict):
    """Another process is archiving this topic; both would write the same files."""

    sqlstate = "HR250"


class ArchiveDiffers(Conflict):
    """A file of the archive does not hold what the log or the catalog says; it is not to be trusted, and nothing was recorded."""

    sqlstate = "HR251"


class ScheduleExists(Conflict):
    """A schedule of this name is already there."""

    sqlstate = "HR230"


class NamespaceExists(Conflict):
    """A namespace of this name is already there."""

    sqlstate = "HR231"


class NamespaceInUse(Conflict):
    """The namespace is not empty, so it is not dropped."""

    sqlstate = "HR232"


class RuleExists(Conflict):
    """A rule of this name is already there."""

    sqlstate = "HR220"


class CorrelatorExists(Conflict):
    """A correlator of this name is already there."""

    sqlstate = "HR221"


class CorrelatorFixed(Conflict):
    """A correlator keeps its name and its topic; another topic is another correlator."""

    sqlstate = "HR222"


class LeaseLost(Conflict):
    """The lease ended before the handler; another node may hold the action now, so nothing of this attempt was kept."""

    sqlstate = "HR206"


class TopicBusy(Conflict):
    """Other transactions hold the topic's log, and waiting longer would hold up everybody who comes after."""

    sqlstate = "HR207"


class Invalid(HeadraceError):
    """The input breaks a rule; nothing was written."""

    sqlstate = "HR300"
    exit_code = 5


class PayloadTooLarge(Invalid):
    """The payload has more bytes than an event may carry."""

    sqlstate = "HR301"


class PayloadTooDeep(Invalid):
    """The payload nests deeper than JSON readers follow."""

    sqlstate = "HR302"


class NumberRefused(Invalid):
    """The payload has a number that JSON readers refuse: not finite, or beyond the range of a double."""

    sqlstate = "HR303"


class BadType(Invalid):
    """The event type is not a name."""

    sqlstate = "HR304"


class BadKey(Invalid):
    """The key is empty or too long."""

    sqlstate = "HR305"


class BadHeaders(Invalid):
    """The headers are not a small JSON object."""

    sqlstate = "HR306"


class OutOfLog(Invalid):
    """The position is not in the log: not written yet, or dropped by retention."""

    sqlstate = "HR307"


class BadText(Invalid):
    """The text has a NUL character or half a surrogate pair, which PostgreSQL cannot store."""

    sqlstate = "HR308"


class BadPayload(Invalid):
    """The payload is not a JSON value."""

    sqlstate = "HR309"


class BadCloudEvent(Invalid):
    """The text is not a CloudEvents 1.0 event in structured JSON."""

    sqlstate = "HR311"


class BadTime(Invalid):
    """The event's time is infinite, or in a year that not every reader knows."""

    sqlstate = "HR312"


class BadCron(Invalid):
    """The text is not a cron expression."""

    sqlstate = "HR330"


class BadZone(Invalid):
    """There is no time zone of this name."""

    sqlstate = "HR331"


class CronNeverFires(Invalid):
    """The cron expression names a day that does not exist within fifty years, such as 30 February."""

    sqlstate = "HR332"


class Forbidden(HeadraceError):
    """This role may not do that, or not in that namespace."""

    sqlstate = "HR400"


class UnknownName(Invalid):
    """The namespace does not know the event type or the action, and refuses unknown ones."""

    sqlstate = "HR340"


class BadRuleFile(Invalid):
    """The file does not describe rules."""

    sqlstate = "HR341"


class BadOutputs(Invalid):
    """What a correlator's tokens become is neither an action nor an event."""

    sqlstate = "HR342"


class FeedbackLoop(Invalid):
    """What the correlator publishes leads back to itself, and that was not allowed."""

    sqlstate = "HR343"


class ProblemsFound(HeadraceError):
    """It ran, and found problems."""

    exit_code = 6


class DatabaseUnavailable(HeadraceError):
    """The database cannot be reached."""


class ShardDown(DatabaseUnavailable):
    """The shard this key belongs to cannot be reached; the other shards go on."""


class NotMigrated(HeadraceError):
    """The database has no headrace schema, or an older one."""


def _tree(root: type[HeadraceError]) -> list[type[HeadraceError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


def error_for_sqlstate(sqlstate: str) -> type[HeadraceError] | None:
    """The error class for a SQLSTATE of ours; the nearest branch for one we do not know, None for a foreign one."""
    if not sqlstate.startswith("HR"):
        return None
    known = {error.sqlstate: error for error in reversed(_tree(HeadraceError))}
    return known.get(sqlstate) or known.get(sqlstate[:3] + "00") or HeadraceError
