"""The tables of the shop."""

from django.db import models


class Order(models.Model):
    """An order. Its status is changed by the handlers in events.py and tasks.py."""

    customer = models.TextField()
    total = models.IntegerField()
    status = models.TextField(default="new")
    receipt_sent = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.customer}"
