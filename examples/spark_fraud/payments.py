"""A day of card payments, the same ones for the same seed. Some cards are stolen: small payments try the card, a large one follows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

DAY = datetime(2026, 1, 31, tzinfo=UTC)


@dataclass(frozen=True)
class Payment:
    """A payment, as it is published."""

    card: str
    amount: Decimal
    shop: str
    paid_at: datetime


def generate_payments(*, cards: int = 60, stolen: int = 6, seed: int = 7) -> list[Payment]:
    """The payments of a day in the order of their times; the first `stolen` cards are stolen."""
    chance = random.Random(seed)
    payments = [payment for number in range(cards) for payment in _usual_payments(chance, f"card-{number:03}")]
    for number in range(stolen):
        payments += _theft(chance, f"card-{number:03}", trials=2 + number % 3)
    return sorted(payments, key=lambda payment: (payment.paid_at, payment.card))


def _usual_payments(chance: random.Random, card: str) -> Iterator[Payment]:
    for _ in range(chance.randint(5, 25)):
        # In cents: most are some tens of euros, few are large or tiny.
        cents = int(chance.lognormvariate(8.2, 1.3))
        yield _payment(chance, card, cents, timedelta(seconds=chance.randrange(86_400)))


def _theft(chance: random.Random, card: str, trials: int) -> Iterator[Payment]:
    """A few small payments and a large one, within minutes."""
    since_midnight = timedelta(seconds=chance.randrange(80_000))
    for _ in range(trials):
        yield _payment(chance, card, chance.randint(1, 199), since_midnight)
        since_midnight += timedelta(seconds=chance.randint(20, 150))
    yield _payment(chance, card, chance.randint(60_000, 200_000), since_midnight)


def _payment(chance: random.Random, card: str, cents: int, since_midnight: timedelta) -> Payment:
    return Payment(card, Decimal(cents) / 100, f"shop-{chance.randrange(30)}", DAY + since_midnight)
