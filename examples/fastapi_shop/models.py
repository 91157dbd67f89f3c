"""The tables of the shop."""

from __future__ import annotations

from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_order"

    id: Mapped[str] = mapped_column(primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int]


class CustomerTotal(Base):
    """What a customer has ordered so far. Written by a consumer, so it shows every order that was counted twice or not at all."""

    __tablename__ = "customer_total"

    customer: Mapped[str] = mapped_column(primary_key=True)
    orders: Mapped[int]
    cents: Mapped[int]


class Shipment(Base):
    """One row per order. Written by the handler of an action; there is no unique constraint that would hide a second one."""

    __tablename__ = "shipment"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[str] = mapped_column(ForeignKey("shop_order.id"))
