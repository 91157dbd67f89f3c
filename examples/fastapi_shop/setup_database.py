"""Creates what the shop needs: headrace's schema, the topic and the tables. `python -m examples.fastapi_shop.setup_database`"""

from __future__ import annotations

from sqlalchemy import create_engine

from examples.fastapi_shop.database import DATABASE_URL
from examples.fastapi_shop.models import Base
from headrace.db import Target, connect, migrate
from headrace.log.topics import create_topic


def setup_database(url: str = DATABASE_URL) -> None:
    target = Target("shop", url)
    with connect(target) as conn:
        migrate(conn)
        create_topic(conn, "orders", partitions=4)
    engine = create_engine(target.dsn.replace("postgresql://", "postgresql+psycopg://"))
    Base.metadata.create_all(engine)
    engine.dispose()


if __name__ == "__main__":
    setup_database()
