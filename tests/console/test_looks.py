"""Every page answers."""

from __future__ import annotations

import pytest

from tests.console.conftest import CheckPage, Running

PAGES = {
    "now": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "topic-create": "/topics/create",
    "consumers": "/consumers",
    "consumer": "/consumers/orders/shipping",
    "consumer-create": "/consumers/create",
    "nodes": "/nodes",
}


@pytest.mark.parametrize("name", PAGES)
def test_page_looks_right_everywhere(site: Running, check_page: CheckPage, name: str) -> None:
    check_page(site.url(PAGES[name]), name)
