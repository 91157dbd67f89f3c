"""Arrow: the events of a topic as Arrow tables, from log and archive as one, without Spark.

Owns: the statement that reads a range of the log through the Arrow driver, and the reading of a range from the archive's files with the
same columns and filters. Promises: every position comes once, in order; retention drops nothing while it is read. Importing this room
does not import pyarrow."""

from headrace.log.arrow.events import Events as Events, read as read
from headrace.log.arrow.export import (
    EXPORT_FORMATS as EXPORT_FORMATS,
    ExportFormat as ExportFormat,
    ExportProgress as ExportProgress,
    export as export,
)
from headrace.log.arrow.ranges import (
    Extract as Extract,
    LockedRange as LockedRange,
    Selection as Selection,
    lock_range as lock_range,
    read_file_range as read_file_range,
    read_log_range as read_log_range,
)
