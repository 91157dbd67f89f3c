"""headrace: an event platform that lives inside PostgreSQL."""
