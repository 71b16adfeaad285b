"""SE-02: a secret is sealed where it is kept and shown to nobody again; an error that quotes one is kept without it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from approvals.models import Connection
from project.people.models import User
from tests import builders
from tests.conftest import PASSWORD
from tests.dump import everything
from tests.handlers import registered, work
from tests.spec.test_no_secret_leaks_by_an_effect import everything as kept_of_a_run
from triggers.errors import Permanent
from triggers.models import DeadLetter, Run, Source

pytestmark = pytest.mark.django_db
SECRET = "4711-very-long-and-secret-4711"
SHAPES = (
    f"bad {settings.SECRET_KEY}",
    f"401 for https://far.example/x?api_key={SECRET}",
    f"{{'password': '{SECRET}'}}",
)
OPEN_TO_ALL = ("/sources/far", "/connections/far", "/settings/tokens", "/settings/checks", "/audit")
OF_THE_API = ("sources", "sources/far", "connections", "connections/far", "audit")


@pytest.fixture
def browser(owner: User, sign_in: Callable[[User], Client]) -> Client:
    """Of somebody who may do everything, and has just proved who he is."""
    client = sign_in(owner)
    client.post("/step-up", {"password": PASSWORD, "next": "/"})
    return client


def sent(browser: Client, path: str, **body: Any) -> Any:
    answer = browser.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json")
    assert answer.status_code == 201, answer.content
    return answer


def test_no_row_holds_one_in_clear_and_nobody_reads_it_again(browser: Client) -> None:
    said = [
        sent(browser, "sources", slug="far", kind="webhook", provider="github", secrets=[{"value": SECRET}]),
        sent(browser, "connections", slug="far", system="github", secrets={"token": SECRET}),
    ]
    assert Source.objects.get().secrets[0]["value"] == Connection.objects.get().secrets["token"] == SECRET
    assert SECRET not in repr(everything())
    said += [browser.get(page) for page in OPEN_TO_ALL]
    said += [browser.get(f"/api/v1/{path}") for path in OF_THE_API]
    said += [browser.get(f"/{page}?format=csv") for page in ("sources", "connections", "audit")]
    for row in (Source.objects.get(), Connection.objects.get()):
        name = f"admin:{row._meta.app_label}_{row._meta.model_name}"
        assert type(row) in admin.site._registry
        said += [browser.get(reverse(f"{name}_changelist")), browser.get(reverse(f"{name}_change", args=[row.pk]))]
        said += [browser.get(reverse(f"{name}_history", args=[row.pk]))]
    for answer in said:
        assert answer.status_code in (200, 201), answer
        assert SECRET not in answer.getvalue().decode()


@pytest.mark.parametrize("words", SHAPES, ids=["by its value", "in an address", "by its name"])
def test_an_error_that_quotes_one_is_kept_without_it(words: str, browser: Client, caplog: Any) -> None:
    def fails(run: Any) -> None:
        try:
            run.step("call", refused)
        except LookupError as error:
            raise Permanent(f"again: {words}") from error

    def refused() -> None:
        raise LookupError(words)

    with registered("story", fails):
        run = builders.run("story")
        work()
        work()
    run = Run.objects.get(pk=run.pk)
    assert run.status == "dead"
    pages = [f"/runs/{run.pk}", f"/dead-letters/{DeadLetter.objects.get().pk}", f"/api/v1/runs/{run.pk}"]
    found = kept_of_a_run() + "".join(browser.get(page).content.decode() for page in pages)
    assert "LookupError" in found
    assert "***" in found
    assert SECRET not in found
    assert settings.SECRET_KEY not in found
