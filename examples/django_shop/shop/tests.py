"""The shop's tests: `python manage.py test`. The last one runs a node as its own process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.apps import apps
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from django.urls import reverse

from headrace.core import InvalidKey
from headrace.integrations.django.database import database_dsn
from headrace.integrations.django.models import ActionResult, ConsumerLag, Rule, TaskRecord, Topic
from shop.models import Order
from shop.tasks import send_receipt

PROJECT = Path(__file__).parents[1]


def published() -> list[object]:
    """The payloads of the events that wait in the outbox."""
    with connection.cursor() as cursor:
        cursor.execute("select payload ->> 'total' from headrace.outbox")
        return [total for (total,) in cursor.fetchall()]


class OrderTest(TestCase):
    """What a request does, in the transaction of the test."""

    def order(self, total: int) -> int:
        form = {"customer": "ada", "total": total}
        response = self.client.post("/orders/", form, content_type="application/json")
        self.assertEqual(response.status_code, 201)
        return int(response.json()["order"])

    def test_order_event_and_task_are_stored_together(self) -> None:
        self.order(5)
        self.assertEqual(published(), ["5"])
        self.assertEqual(TaskRecord.objects.get().task_path, "shop.tasks.send_receipt")

    def test_order_is_not_stored_if_its_event_is_refused(self) -> None:
        with self.assertRaises(InvalidKey):
            self.client.post("/orders/", {"customer": "", "total": 5}, content_type="application/json")
        self.assertEqual((Order.objects.count(), published(), TaskRecord.objects.count()), (0, [], 0))

    def test_event_and_task_go_with_the_transaction(self) -> None:
        with self.assertRaisesMessage(RuntimeError, "too late"), transaction.atomic():
            self.order(5)
            raise RuntimeError("too late")
        self.assertEqual((Order.objects.count(), published(), TaskRecord.objects.count()), (0, [], 0))


class AdminTest(TestCase):
    """The admin shows what headrace has, and changes nothing."""

    def setUp(self) -> None:
        self.client.force_login(User.objects.create_superuser("admin"))

    def test_pages_list_and_show_rows(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("select headrace.create_consumer('orders', 'billing')")
        for model in apps.get_app_config("headrace").get_models():
            page = reverse(f"admin:headrace_{model._meta.model_name}_changelist")
            self.assertEqual(self.client.get(page, {"q": "a"}).status_code, 200, page)
        lag = ConsumerLag.objects.get(partition=3)
        self.assertEqual(lag.pk, "default/orders/billing/3")
        page = reverse("admin:headrace_consumerlag_change", args=[quote(lag.pk)])
        self.assertContains(self.client.get(page), "billing")

    def test_nothing_can_be_added_changed_or_deleted(self) -> None:
        page = f"/admin/headrace/topic/{Topic.objects.get(topic='orders').pk}"
        self.assertEqual(self.client.get("/admin/headrace/topic/add/").status_code, 403)
        self.assertEqual(self.client.post(f"{page}/change/", {"topic": "other"}).status_code, 403)
        self.assertEqual(self.client.post(f"{page}/delete/", {"post": "yes"}).status_code, 403)


@contextmanager
def node() -> Iterator[None]:
    """A node on the test's database, in a process of its own."""
    command = [sys.executable, "manage.py", "headrace", "node", "run", "shop.events:app"]
    environment = {**os.environ, "DATABASE_URL": database_dsn("default")}
    process = subprocess.Popen(command, cwd=PROJECT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        process.terminate()
        _, log = process.communicate(timeout=10)
        if process.returncode:
            sys.stderr.write(log)


class NodeTest(TransactionTestCase):
    """The whole way: request, event, rule, action, handler, task."""

    def test_node_reviews_large_orders_and_sends_receipts(self) -> None:
        call_command("headrace", "apply", str(PROJECT / "rules.yaml"), "--yes", "--json")
        self.assertEqual(Rule.objects.get().action, "review-order")
        for total in (5, 2000):
            self.client.post("/orders/", {"customer": "ada", "total": total}, content_type="application/json")
        with node():
            self.wait_for_handlers()
        self.assertEqual(list(Order.objects.order_by("total").values_list("status", flat=True)), ["new", "in review"])
        result = send_receipt.get_result(str(TaskRecord.objects.first().pk))
        self.assertEqual((result.status, result.return_value), ("SUCCESSFUL", "receipt for ada"))

    def wait_for_handlers(self) -> None:
        deadline = time.monotonic() + 30
        while ActionResult.objects.filter(outcome="done").count() < 3:
            self.assertLess(time.monotonic(), deadline, "the node has not handled two tasks and one review")
            time.sleep(0.05)
