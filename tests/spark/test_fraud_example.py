"""examples/spark_fraud: database and Spark give the same answers, and the backtest of the changed pattern finds more."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.db import Connection, Target
from tests.spark.reading import secret_file

FOLDER = Path(__file__).parents[2] / "examples" / "spark_fraud"


async def test_database_and_spark_find_the_same_stolen_cards(
    spark: SparkSession, database: Target, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    fraud, source = import_module("fraud"), import_module("payments")
    payments = source.generate_payments(cards=40)
    assert payments == source.generate_payments(cards=40)
    fraud.prepare(conn)
    fraud.publish_payments(conn, payments)
    await fraud.run_in_database(database, len(payments))

    answers = fraud.database_answers(conn)
    large = {("large-payment", position) for position, payment in enumerate(payments, 1) if payment.amount >= 500}
    stolen = {answer[1] for answer in answers if answer[0] == "stolen-card"}
    assert {answer for answer in answers if answer[0] == "large-payment"} == large
    # A thief who tries the card twice stays below three small payments.
    assert {"card-001", "card-002", "card-004", "card-005"} <= stolen
    assert fraud.spark_answers(spark, conn, {"secret": secret_file(tmp_path, database)}) == answers

    result = fraud.backtest_change(spark, conn, database)
    assert result.compared and result.live == len(answers) - len(large)
    assert {"card-000", "card-003"} <= {key.key for key in result.keys} and result.would > result.live
