"""The one tree of errors. SQL raises the same errors by their SQLSTATE.

The docstring of a class says what happened and what to do; the message adds the names and numbers. The exit code of the command
line belongs to a branch: not found 3, conflict 4, invalid 5, problems found 6, everything else 1. A class without a `sqlstate`
of its own is raised by Python only."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar


class HeadraceError(Exception):
    """headrace could not do what it was asked to do. The message says why."""

    sqlstate: ClassVar[str] = "HR000"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, *, sqlstate: str | None = None, exit_code: int | None = None) -> None:
        super().__init_subclass__()
        if sqlstate is not None:
            cls.sqlstate = sqlstate
        if exit_code is not None:
            cls.exit_code = exit_code


class NotFound(HeadraceError, sqlstate="HR100", exit_code=3):
    """Something with this name does not exist. Check the name and the namespace."""


class UnknownTopic(NotFound, sqlstate="HR101"):
    """The namespace has no topic with this name. Check the name, or create the topic."""


class UnknownConsumer(NotFound, sqlstate="HR102"):
    """The topic has no consumer with this name. Check the name, or create the consumer."""


class UnknownDeadLetter(NotFound, sqlstate="HR103"):
    """The namespace has no dead letter with this number. List the dead letters; it may have been redriven or deleted."""


class UnknownAction(NotFound, sqlstate="HR104"):
    """No action with this id is in the namespace's queue or among its results. Check the id; results are kept for 30 days."""


class UnknownNode(NotFound, sqlstate="HR105"):
    """The namespace has no node with this name or id. List the nodes; it may have been forgotten."""


class UnknownRule(NotFound, sqlstate="HR120"):
    """The namespace has no rule with this name. Check the name, or create the rule."""


class UnknownEvent(NotFound, sqlstate="HR121"):
    """No event with this id is in a log or in the outbox. Check the id; retention may have dropped the event."""


class UnknownCorrelator(NotFound, sqlstate="HR122"):
    """The namespace has no correlator with this name. Check the name, or create the correlator."""


class UnknownRelay(NotFound, sqlstate="HR123"):
    """The namespace has no relay with this name. Check the name, or create the relay."""


class UnknownSchedule(NotFound, sqlstate="HR130"):
    """The namespace has no schedule with this name. Check the name, or create the schedule."""


class UnknownNamespace(NotFound, sqlstate="HR131"):
    """There is no namespace with this name, or this role may not see it. Create it, or ask its owner for access."""


class UnknownRole(NotFound, sqlstate="HR132"):
    """There is no database role with this name. Create it with `create role`."""


class UnknownSchema(NotFound, sqlstate="HR133"):
    """The event type has no schema, or not this version of it. Set one with `headrace event-type set`."""


class UnknownAccessToken(NotFound, sqlstate="HR160"):
    """The namespace has no access token in use with this name. List the tokens; it may have been revoked."""


class UnknownHook(NotFound, sqlstate="HR161"):
    """The namespace has no hook with this name. Check the name, or create the hook."""


class Conflict(HeadraceError, sqlstate="HR200", exit_code=4):
    """The object already exists, or its current state does not allow this."""


class TopicExists(Conflict, sqlstate="HR201"):
    """A topic with this name already exists. Choose another name, or alter the topic."""


class ConsumerExists(Conflict, sqlstate="HR202"):
    """A consumer with this name already exists with a different order. Choose another name, or drop that consumer first."""


class TopicInUse(Conflict, sqlstate="HR203"):
    """The topic has consumers or captured tables. Remove them first, or drop the topic with force."""


class TooFewPartitions(Conflict, sqlstate="HR204"):
    """A topic cannot have fewer partitions than it has now. Give a larger number, or create another topic."""


class MigrationChanged(Conflict, sqlstate="HR205"):
    """A migration was applied with different text. Install the headrace version that matches the database, then upgrade."""


class LeaseLost(Conflict, sqlstate="HR206"):
    """The lease ended before the handler did, so the attempt was rolled back. Raise lease_s, or shorten the handler."""


class TopicBusy(Conflict, sqlstate="HR207"):
    """Other transactions hold the topic's log for too long. Try again when no long transaction reads it."""


class WrongIsolationLevel(Conflict, sqlstate="HR208"):
    """The function decides under a lock, which takes a READ COMMITTED transaction. Set this isolation level for the transaction."""


class SchemaTooNew(Conflict, sqlstate="HR209"):
    """A newer release of headrace has migrated the database. Install that release or a newer one here."""


class RuleExists(Conflict, sqlstate="HR220"):
    """A rule with this name already exists. Choose another name, or alter the rule."""


class CorrelatorExists(Conflict, sqlstate="HR221"):
    """A correlator with this name already exists. Choose another name, or alter the correlator."""


class CorrelatorTopicChanged(Conflict, sqlstate="HR222"):
    """A correlator cannot move to another topic. Create a new correlator for that topic."""


class ReservedConsumer(Conflict, sqlstate="HR223"):
    """The consumer belongs to the rules of a topic, to a correlator or to a relay. Change these instead: drop or alter the rule,
    correlator or relay."""


class RelayExists(Conflict, sqlstate="HR224"):
    """A relay with this name already exists. Choose another name, or alter the relay."""


class ScheduleExists(Conflict, sqlstate="HR230"):
    """A schedule with this name already exists. Choose another name, or alter the schedule."""


class NamespaceExists(Conflict, sqlstate="HR231"):
    """A namespace with this name already exists. Choose another name."""


class NamespaceInUse(Conflict, sqlstate="HR232"):
    """The namespace is not empty. Drop what it contains first."""


class IncompatibleSchema(Conflict, sqlstate="HR240"):
    """The new schema breaks readers or publishers that the compatibility of the event type protects, or nobody can tell. The message
    has an example. Change the schema, or set it with force."""


class SchemaChanged(Conflict, sqlstate="HR241"):
    """Somebody else has set a schema of this event type meanwhile. Check the new schema against that version, and set it again."""


class ArchiveBusy(Conflict, sqlstate="HR250"):
    """Another process is archiving this topic. Wait until it has finished."""


class ArchiveMismatch(Conflict, sqlstate="HR251"):
    """An archive file differs from the log or the catalog; nothing was recorded. Archive that day again while the log has it."""


class LogWentBack(Conflict, sqlstate="HR252"):
    """The log lost events that were read or archived before: a failover, a restore, or the topic was created again. See the
    message for the positions, and docs/operations.md, Failover."""


class AccessTokenExists(Conflict, sqlstate="HR260"):
    """An access token with this name is in use. Choose another name, or revoke that one first."""


class HookExists(Conflict, sqlstate="HR261"):
    """A hook with this name already exists. Choose another name, or alter the hook."""


class IdempotencyKeyReused(Conflict, sqlstate="HR262"):
    """The Idempotency-Key was already used for another request; nothing was published. Use a new key for every request."""


class AddressInUse(Conflict):
    """Another process listens on this address already. Stop it, or choose another port."""


class NotIdle(HeadraceError):
    """The test kit ran the application for as long as it may, and there was still something to do. See the message for what was
    done until then; a handler that publishes what it consumes never becomes idle."""


class Invalid(HeadraceError, sqlstate="HR300", exit_code=5):
    """The input breaks a rule, and nothing was written. Correct it as the message says."""


class PayloadTooLarge(Invalid, sqlstate="HR301"):
    """The payload has more bytes than an event may have. Store the large part elsewhere and publish a reference to it."""


class PayloadTooDeep(Invalid, sqlstate="HR302"):
    """The payload is nested more deeply than JSON readers follow. Flatten it, or publish the deep part as a string."""


class InvalidNumber(Invalid, sqlstate="HR303"):
    """JSON readers reject a number in the payload: it is not finite, or too large for a double. Publish it as a string."""


class InvalidEventType(Invalid, sqlstate="HR304"):
    """The event type is not a valid name. Use letters, digits, single spaces and _ . : / - and start with a letter or _."""


class InvalidKey(Invalid, sqlstate="HR305"):
    """The key is empty or too long. Leave it out, or use a hash of a long key."""


class InvalidHeaders(Invalid, sqlstate="HR306"):
    """The headers are not a small JSON object. Put data into the payload."""


class PositionOutOfRange(Invalid, sqlstate="HR307"):
    """The position is not in the log: it is not written yet, or retention dropped it. Use earliest, latest or a position within."""


class InvalidText(Invalid, sqlstate="HR308"):
    """PostgreSQL cannot store the text: it has a NUL character or half a surrogate pair. Remove it."""


class InvalidPayload(Invalid, sqlstate="HR309"):
    """The payload is not a JSON value. Convert it to one first."""


class InvalidCloudEvent(Invalid, sqlstate="HR311"):
    """The text is not a CloudEvents 1.0 event in structured JSON. Add or correct the attribute that the message names."""


class InvalidTime(Invalid, sqlstate="HR312"):
    """The event's time is infinite or outside the years 1 to 9999. Leave it out to use the current time."""


class InvalidRetention(Invalid, sqlstate="HR313"):
    """The retention is negative or longer than 1000 years. Leave it out, or set it to zero, to keep the log for ever."""


class InvalidCron(Invalid, sqlstate="HR330"):
    """The text is not a cron expression. Write five fields, for example `*/5 * * * *`."""


class InvalidTimeZone(Invalid, sqlstate="HR331"):
    """There is no time zone with this name. Use an IANA name, for example Europe/Berlin."""


class CronNeverFires(Invalid, sqlstate="HR332"):
    """The cron expression does not fire within fifty years, for example on 30 February. Correct the day or the month."""


class UnregisteredName(Invalid, sqlstate="HR340"):
    """The event type or action is not registered, and the namespace accepts registered names only. Register or correct it."""


class InvalidDefinitionFile(Invalid, sqlstate="HR341"):
    """The file does not contain valid definitions. Correct the entry that the message names."""


class InvalidOutputs(Invalid, sqlstate="HR342"):
    """A correlator's output is neither an action nor an event, or its pattern never pushes the output's token."""


class FeedbackLoop(Invalid, sqlstate="HR343"):
    """The correlator's own events lead back to it. Publish to another topic or type, or allow the loop explicitly."""


class InvalidSchema(Invalid, sqlstate="HR350"):
    """The text is not a JSON Schema (2020-12). Correct it at the place that the message names."""


class PayloadRejected(Invalid, sqlstate="HR351"):
    """The payload breaks the schema of its event type, which rejects such events. The message names the path and the rule."""


class SchemaFindings(Invalid, sqlstate="HR352"):
    """The condition reads what the schema of the event type can never have: a field, a cast or a value. Correct the condition, or the
    schema."""


class InvalidRelay(Invalid, sqlstate="HR360"):
    """The target, the options or the mapping of a relay are wrong. Correct them as the message says."""


class InvalidSignature(Invalid):
    """No secret of the hook has signed the webhook, or its signed time lies outside of the window. Check the secret and the sender's
    clock."""


class PackageMissing(Invalid):
    """A package that this needs is not installed, or cannot be imported. Install or repair what the message names."""


class InvalidAccessToken(Invalid, sqlstate="HR370"):
    """The access token cannot be stored: its name, rights, topics or event types are not allowed. Correct what the message names."""


class InvalidHook(Invalid, sqlstate="HR371"):
    """The hook cannot be stored, or its mapping does not fit the request. Correct what the message names."""


class InvalidHandler(Invalid):
    """The function cannot be a handler: wrong parameters or annotations. Write it in the form that the message shows."""


class PayloadMismatch(Invalid):
    """The payload does not fit the type that the handler asks for. Correct the publisher or the type; then redrive."""


class Forbidden(HeadraceError, sqlstate="HR400"):
    """This role may not do this in this namespace. Use another role, or ask the owner for a grant."""


class HandlerTimeout(HeadraceError):
    """The handler ran longer than its timeout_s, and its effects were rolled back. Raise timeout_s, or shorten the handler."""


class DeliveryError(HeadraceError):
    """A relay's target did not take a message, or did not confirm it. It is tried again by the failure policy of the relay."""

    def __init__(self, message: str, *, retry_after_s: float | None = None, delivered: Collection[int] = ()) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """The pause that the target asked for."""
        self.delivered = frozenset(delivered)
        """Positions that the target has confirmed although the delivery as a whole failed; they are not sent again."""


class TargetRefused(DeliveryError):
    """A relay's target will never take this message, for example because it is too large. It becomes a dead letter at once."""


class TargetGone(DeliveryError):
    """A relay's target wants no more messages. The relay is disabled, with the reason, until it is resumed."""


class ProblemsFound(HeadraceError, exit_code=6):
    """The command ran to its end and found problems. See its output."""


class DatabaseUnavailable(HeadraceError):
    """The database is unreachable. Check its address and that it runs, then try again."""


class ShardUnavailable(DatabaseUnavailable):
    """The shard of this key is unreachable; the other shards keep working. Try again when it is back."""


class TransactionPooler(HeadraceError):
    """The address is that of a pooler in transaction mode, and nodes need sessions of their own. Give the server's own address."""


class NotMigrated(HeadraceError):
    """The database has no headrace schema, or an older one. Run `headrace migrate`."""


def error_classes(root: type[HeadraceError] = HeadraceError) -> list[type[HeadraceError]]:
    """An error class and everything below it, each class before its subclasses."""
    return [root, *(error for child in root.__subclasses__() for error in error_classes(child))]


def error_for_sqlstate(sqlstate: str) -> type[HeadraceError] | None:
    """The error class of a SQLSTATE: its branch if the class is unknown, None if the SQLSTATE is not ours."""
    if not sqlstate.startswith("HR"):
        return None
    # Go in reverse order: a class that inherits its SQLSTATE must not take the place of its base.
    known = {error.sqlstate: error for error in reversed(error_classes())}
    return known.get(sqlstate) or known.get(sqlstate[:3] + "00") or HeadraceError
