"""The desk that tests of pages look at, and who works there."""

from collections.abc import Callable

import pytest
from django.test import Client

from project.people.models import User
from tests.triggers.desk import Desk, furnish


@pytest.fixture
def desk(db: None) -> Desk:
    return furnish()


@pytest.fixture
def operator(ann: User, sign_in: Callable[[User], Client]) -> Client:
    return sign_in(ann)
