"""Faults: what may go wrong around the product, injected on purpose, one after the other, and healed."""

from headrace.prove.faults.nemesis import FAULTS, Fault, Nemesis, PlannedFault, make_plan, select_faults

__all__ = ["FAULTS", "Fault", "Nemesis", "PlannedFault", "make_plan", "select_faults"]
