"""A desk with one row of everything."""

from collections.abc import Iterator
from typing import Any

import pytest

from project.people.models import User
from tests.contract.world import World, make_world
from triggers import registry


@pytest.fixture
def _handler() -> Iterator[None]:
    """Code for the handler that the triggers of these tests name."""

    def nothing(run: Any) -> None:
        return None

    registry.HANDLERS["contract-test"] = registry.Handler(name="contract-test", function=nothing)
    yield
    del registry.HANDLERS["contract-test"]


@pytest.fixture
def world(_handler: None, ann: User) -> World:
    return make_world(ann)
