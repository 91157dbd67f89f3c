"""Backtest: what a rule or a pattern would have done in the past, compared with what the live one did.

Reads archive and log through Spark, and the live firings and outputs from the database. Promises: all its sessions are read-only,
so it sends no action, publishes no event and moves no cursor."""

from headrace.spark.backtest.report import (
    DayCounts as DayCounts,
    Evidence as Evidence,
    KeyCounts as KeyCounts,
    Report as Report,
    Result as Result,
    Sample as Sample,
    TokenCounts as TokenCounts,
    html_report as html_report,
)
from headrace.spark.backtest.run import backtest as backtest, read_only as read_only
from headrace.spark.backtest.subjects import (
    BacktestSubject as BacktestSubject,
    correlator_subject as correlator_subject,
    file_subjects as file_subjects,
    rule_subjects as rule_subjects,
)
