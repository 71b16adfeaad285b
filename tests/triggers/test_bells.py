"""What Celery is told with each bell."""

from typing import Any

import pytest

from project.lib import clock
from tests import builders
from triggers import bells


@pytest.mark.django_db
@pytest.mark.parametrize("facts", [{}, {"enabled": False}, {"archived_at": True}])
def test_the_longest_timeout_of_any_trigger_counts(facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a trigger that is off or archived go on to their end."""
    monkeypatch.setattr(bells.Belfry, "limit_read_at", -bells.FRESH)
    monkeypatch.setattr(bells.Belfry, "limit", 0.0)
    if "archived_at" in facts:
        facts = {"archived_at": clock.now(), "enabled": False}
    builders.trigger("story", limits={"timeout": 7200}, **facts)
    assert bells.backstop() == 7200 + bells.BACKSTOP
