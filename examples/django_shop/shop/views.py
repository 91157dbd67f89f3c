"""The views of the shop."""

import json

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from headrace import publish
from shop.models import Order
from shop.tasks import send_receipt


@require_POST
def create_order(request: HttpRequest) -> JsonResponse:
    """Stores an order, publishes it and enqueues its receipt: all of it, or nothing."""
    form = json.loads(request.body)
    with transaction.atomic():
        order = Order.objects.create(customer=form["customer"], total=form["total"])
        publish(connection, "orders", "order.placed", {"order": order.pk, "total": order.total}, key=order.customer)
        send_receipt.enqueue(order.pk)
    return JsonResponse({"order": order.pk}, status=201)
