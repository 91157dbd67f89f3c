"""Integrations: headrace in the frameworks that applications are built with. Each is loaded only when it is used."""
