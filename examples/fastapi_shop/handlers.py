"""The handlers: `headrace node run examples.fastapi_shop.handlers:app`. They get sessions of the shop's own engine."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from examples.fastapi_shop.database import new_session
from examples.fastapi_shop.models import CustomerTotal, Shipment
from headrace import Action, Headrace, LoggedEvent

app = Headrace(session=new_session)


@app.consumer("orders")
async def count_orders(event: LoggedEvent, session: AsyncSession) -> None:
    """Events of a customer come in order, one at a time, so reading and writing the total needs no lock."""
    order = event.payload
    total = await session.get(CustomerTotal, order["customer"])
    if total is None:
        session.add(CustomerTotal(customer=order["customer"], orders=1, cents=order["cents"]))
    else:
        total.orders += 1
        total.cents += order["cents"]


@app.on("order.placed", topic="orders")
async def ship(action: Action, session: AsyncSession) -> None:
    session.add(Shipment(order_id=action.payload["id"]))
