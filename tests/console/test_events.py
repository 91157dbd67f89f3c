"""The page of events: tail, filter, positions and times, publish, copies, exports."""

from __future__ import annotations

import pytest

from tests.console.conftest import CheckPage, Running

PAGES = {
    "events": {"topic": "orders"},
    "events-filter": {
        "topic": "orders",
        "type": "order.placed",
        "where": "(object ->> 'total')::int > 300 and key <> 'x'",
        "match": "all",
    },
}


@pytest.mark.parametrize("name", PAGES)
def test_page_looks_right_everywhere(site: Running, check_page: CheckPage, name: str) -> None:
    check_page(site.url("/events", **PAGES[name]), name)
