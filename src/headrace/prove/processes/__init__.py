"""Processes: the workload runs in processes of its own, `python -m headrace.prove.processes ROLE CONFIG`.

Owns: their start, signals, kills and ends. Promises: it ends no process but its own; a process that ends though nobody killed it
is recorded. The modules of the roles are loaded only in their own processes."""

from headrace.prove.processes.config import MAIN, ProcessConfig, reader_name, shard_name
from headrace.prove.processes.supervisor import Processes

__all__ = ["MAIN", "ProcessConfig", "Processes", "reader_name", "shard_name"]
