"""Scan: many rules and correlators over one read of a log, in the tasks that read it.

Owns: the classification of events by whole columns, and what travels from the tasks that read to those that step. Promises: the
firings, outputs and evidence of the database's engines."""

from headrace.spark.scan.collecting import Watched, classify_frame, classify_range, within
from headrace.spark.scan.frame_matching import match_by_columns
from headrace.spark.scan.frames import step_frame
from headrace.spark.scan.scanning import Definitions, LiveOutputs, scan

__all__ = [
    "Definitions",
    "LiveOutputs",
    "Watched",
    "classify_frame",
    "classify_range",
    "match_by_columns",
    "scan",
    "step_frame",
    "within",
]
