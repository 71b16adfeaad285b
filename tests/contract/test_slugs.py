"""Rows that are known by a slug never take an address of the desk itself."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from project.people.models import User
from tests.conftest import PASSWORD
from tests.contract.world import API, World


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sources", {"kind": "webhook", "provider": "github"}),
        ("/triggers", {"source": "github", "handler": "triage-issue"}),
        ("/connections", {"system": "github", "practice": True}),
    ],
)
def test_no_row_takes_the_address_of_its_empty_form(
    world: World, owner: User, sign_in: Callable[[User], Client], path: str, body: dict[str, Any]
) -> None:
    client = sign_in(owner)
    client.post(reverse("step-up"), {"password": PASSWORD, "next": "/"})
    for slug in ("new", "fit", "preview") if path == "/sources" else ("new",):
        refused = client.post(f"{API}{path}", {"slug": slug, **body}, content_type="application/json")
        assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (422, "not_valid", "slug")
