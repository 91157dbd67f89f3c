"""Bugs: known mistakes of such systems, planted on purpose to show that the checks catch them."""

from headrace.prove.bugs.catalog import BUGS, Bug, edit_function, find_bugs, plant_in_database, plant_in_node, server_settings

__all__ = ["BUGS", "Bug", "edit_function", "find_bugs", "plant_in_database", "plant_in_node", "server_settings"]
