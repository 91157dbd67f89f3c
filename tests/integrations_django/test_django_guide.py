"""The guide quotes the example, whose tests run."""

from __future__ import annotations

import re

from tests.builders import ROOT
from tests.integrations_django.django_project import PROJECT


def test_every_block_of_the_guide_is_in_the_example() -> None:
    guide = (ROOT / "docs/howto/django.md").read_text(encoding="utf-8")
    sources = [path.read_text(encoding="utf-8") for path in PROJECT.rglob("*.py")]
    blocks = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    assert [block for block in blocks if not any(block in source for source in sources)] == []
