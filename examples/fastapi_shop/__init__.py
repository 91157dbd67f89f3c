"""A shop with FastAPI and SQLAlchemy: orders over HTTP, totals and shipments by handlers."""
