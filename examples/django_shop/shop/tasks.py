"""Tasks of the shop. A node runs them, see events.py."""

try:
    from django.tasks import task
except ModuleNotFoundError:  # Before Django 6: the package django-tasks.
    from django_tasks import task

from shop.models import Order


@task
def send_receipt(order_id: int) -> str:
    """Stands for a mail to the customer."""
    order = Order.objects.get(pk=order_id)
    order.receipt_sent = True
    order.save(update_fields=["receipt_sent"])
    return f"receipt for {order.customer}"
