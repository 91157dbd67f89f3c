"""The web application: `uvicorn examples.fastapi_shop.web:web`. An order and its event commit together."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from examples.fastapi_shop.database import request_session
from examples.fastapi_shop.models import CustomerTotal, Order
from headrace import publish_async

web = FastAPI(title="Shop")
# The transaction commits before the answer is sent: an order that the customer sees confirmed is in the database.
RequestSession = Annotated[AsyncSession, Depends(request_session, scope="function")]


class NewOrder(BaseModel):
    id: str
    """Chosen by the client, so that it may repeat a request without an answer."""
    customer: str
    cents: int


@web.post("/orders", status_code=201)
async def place_order(order: NewOrder, session: RequestSession) -> NewOrder:
    values = order.model_dump()
    inserted = await session.scalar(insert(Order).values(values).on_conflict_do_nothing().returning(Order.id))
    if inserted is not None:
        await publish_async(session, "orders", "order.placed", values, key=order.customer)
    return order


@web.get("/customers/{customer}")
async def show_customer(customer: str, session: RequestSession) -> dict[str, int]:
    total = await session.scalar(select(CustomerTotal).where(CustomerTotal.customer == customer))
    return {"orders": total.orders, "cents": total.cents} if total else {"orders": 0, "cents": 0}
