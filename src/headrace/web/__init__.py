"""Web: events in and out by HTTP, and the console."""
