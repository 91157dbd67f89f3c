"""The condition corpus on Spark: `match` itself answers it, many cases to a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.lang.condition import Condition, EvaluateMany, Sample, jsonb_text
from headrace.spark.match.matching import match
from headrace.spark.match.plan import RuleSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES_PER_JOB = 150
"""Every case brings fields of its own; with many more the generated code costs more than a second job."""
_SCHEMA = "type string, key string, payload string, headers string, topic string, `offset` bigint, timestamp timestamp"


def spark_conditions(session: SparkSession) -> EvaluateMany:
    """The engine `spark` of the condition corpus: true, false or unknown for each pair."""

    def evaluate(pairs: Sequence[tuple[Condition, Sample]]) -> list[bool | None]:
        answers: list[bool | None] = []
        for start in range(0, len(pairs), CASES_PER_JOB):
            answers += _answers(session, pairs[start : start + CASES_PER_JOB])
        return answers

    return evaluate


def _answers(session: SparkSession, pairs: Sequence[tuple[Condition, Sample]]) -> list[bool | None]:
    """A case is a topic. Each is asked whether it is true and whether it is false; neither means unknown."""
    rules: list[RuleSpec] = []
    rows: list[tuple[object, ...]] = []
    for number, (condition, event) in enumerate(pairs):
        topic = str(number)
        for name, text in (("true", condition.text), ("false", f"({condition.text}) is false")):
            rules.append(RuleSpec(name=name, event_type=event.type, action="answer", condition=text, topic=topic))
        headers, payload = jsonb_text(dict(event.headers)), jsonb_text(event.payload)
        rows.append((event.type, event.key, payload, headers, topic, number, event.emitted_at))
    answers: list[bool | None] = [None] * len(pairs)
    for hit in match(session.createDataFrame(rows, _SCHEMA), rules).select("rule", "offset").collect():
        answers[hit["offset"]] = hit["rule"] == "true"
    return answers
