"""Faults: what may go wrong around the product, injected on purpose, one after the other, and healed."""

from headrace.prove.faults.catalog import FAULTS, Fault, select_faults
from headrace.prove.faults.nemesis import Nemesis
from headrace.prove.faults.plan import PlannedFault, make_plan

__all__ = ["FAULTS", "Fault", "Nemesis", "PlannedFault", "make_plan", "select_faults"]
