"""Backtest: what a rule or a pattern would have done in the past, compared with what the live one did.

Reads archive and log through Spark, and the live firings and outputs from the database. Promises: all its sessions are read-only,
so it sends no action, publishes no event and moves no cursor."""

from headrace.spark.backtest.report import DayCounts, Evidence, KeyCounts, Report, Result, Sample, TokenCounts, html_report
from headrace.spark.backtest.run import backtest, read_only
from headrace.spark.backtest.subjects import BacktestSubject, correlator_subject, file_subjects, rule_subjects

__all__ = [
    "BacktestSubject",
    "DayCounts",
    "Evidence",
    "KeyCounts",
    "Report",
    "Result",
    "Sample",
    "TokenCounts",
    "backtest",
    "correlator_subject",
    "file_subjects",
    "html_report",
    "read_only",
    "rule_subjects",
]
