"""Backtest: what a rule or a pattern would have done with the past, beside what the live one did.

Owns: nothing; it reads archive and log through Spark and the record of firings from the database. Promises: all its sessions are
read-only, so it sends no action, publishes no event and moves no cursor."""

from headrace.spark.backtest.access import read_only
from headrace.spark.backtest.html import html_report
from headrace.spark.backtest.report import Day, Evidence, KeyCount, Report, Result, Sample, TokenCount
from headrace.spark.backtest.run import backtest
from headrace.spark.backtest.subject import Subject, correlator_subject, rule_subjects

__all__ = [
    "Day",
    "Evidence",
    "KeyCount",
    "Report",
    "Result",
    "Sample",
    "Subject",
    "TokenCount",
    "backtest",
    "correlator_subject",
    "html_report",
    "read_only",
    "rule_subjects",
]
