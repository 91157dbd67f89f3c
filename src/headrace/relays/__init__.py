"""Relays: consumers that deliver events to other systems."""
