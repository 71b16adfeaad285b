"""The form of a source in the browser says all that the API says of one, and what it does not say it leaves alone."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from project.people.models import User
from tests import builders
from tests.handlers import registered
from triggers.forms.door import DoorForm
from triggers.forms.listened import ListenedForm
from triggers.forms.named import SourceForm
from triggers.forms.source import form_for
from triggers.models import Source, Trigger
from triggers.schemas_config import SourceFields
from triggers.sources.verify import catalogue

BUTTONS = {"enabled", "secrets"}  # a button and a page of their own
LISTENED = {
    "email": {"host": "127.0.0.1", "username": "desk"},
    "redis_stream": {"url": "redis://127.0.0.1:6379/0", "stream": "orders"},
    "kafka": {"brokers": "127.0.0.1:9092", "topics": "orders"},
    "database": {"url": "postgresql://desk@127.0.0.1/shop", "table": "orders", "cursor": "id"},
}


@pytest.fixture
def admin(owner: User, sign_in: Callable[[User], Client], settings: Any) -> Iterator[Client]:
    settings.EGRESS_ALLOW = ["127.0.0.1"]
    with registered("deploy", lambda run: None):
        yield sign_in(owner)


def sent(form: SourceForm) -> dict[str, Any]:
    """What a browser sends of a form that nobody touched."""
    parts = [form, *([form.inner] if isinstance(form, ListenedForm) else [])]
    shown = {part.add_prefix(name): part[name] for part in parts for name in part.fields}
    values = {name: bound.field.prepare_value(bound.value()) for name, bound in shown.items()}
    return {name: value for name, value in values.items() if value not in (None, False)}


def filled(source: Source) -> dict[str, Any]:
    return sent(form_for(source.kind)(source=source))


def test_every_member_of_a_source_stands_in_its_form(admin):
    """The API's members, whichever form they stand in."""
    source = builders.source("github")
    told = {DoorForm.places.get(name, name) for name in SourceFields.model_fields if name != "config"}
    assert told - BUTTONS <= set(DoorForm(source=source).fields)
    page = admin.get(reverse("source-edit", args=["github"])).text
    assert all(f'name="{name}"' in page for name in told - BUTTONS)


def test_what_a_kind_does_not_read_does_not_stand_in_its_form():
    said = {kind: set(form_for(kind)(kind=kind).fields) for kind in Source.KINDS}
    assert {kind for kind in said if "expect_every" not in said[kind]} == {"schedule"}
    assert {kind for kind in said if "actor" in said[kind]} == {"webhook", *Source.CHATS, "email"}
    assert {kind for kind in said if "idempotency_key" in said[kind]} == set(Source.DOORS)
    assert {kind for kind in said if "on_overload" in said[kind]} == set(Source.DOORS)
    assert {kind for kind in said if "dedupe_window" not in said[kind]} == {"schedule"}


def test_what_is_typed_of_repeats_and_loops_is_saved_and_read(admin):
    row = builders.source("github")
    told = {"actor": "desk-bot", "idempotency_key": "event.data.issue.id", "dedupe_window": "1209600"}
    told["on_overload"] = "accept"
    assert admin.post(reverse("source-edit", args=["github"]), filled(row) | told).status_code == 302
    row.refresh_from_db()
    assert (row.actor, row.idempotency_key, row.dedupe_window) == ("desk-bot", "event.data.issue.id", 1209600)
    assert row.on_overload == "accept"
    assert "<summary>Repeats and loops</summary>" in admin.get(reverse("source-edit", args=["github"])).text


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"idempotency_key": "event.data.=="}, "idempotency_key"),
        ({"dedupe_window": "3600"}, "dedupe_window"),  # GitHub sends again for three days
        ({"provider": "grafana", "actor": "desk-bot"}, "actor"),
        ({"provider": "custom", "header": "X-Sig", "actor": "desk-bot"}, "actor"),
    ],
)
def test_what_is_wrong_there_is_said_at_its_field(admin, told, field):
    row = builders.source("github")
    answer = admin.post(reverse("source-edit", args=["github"]), filled(row) | told)
    assert answer.status_code == 422
    assert answer.context["form"].errors[field]
    assert '<details class="raw" open><summary>Repeats and loops' in answer.text


def test_lines_of_a_template_and_of_a_key_stay_lines(admin):
    """A browser sends CRLF, and a text field none at all."""
    config = {"header": "X-Sig", "template": "{h:X-Time}\n{body}", "timestamp": "{h:X-Time}", "tolerance": 300}
    key = "// the order\nevent.data.order"
    row = builders.source("it", provider="custom", config=config, idempotency_key=key)
    page = admin.get(reverse("source-edit", args=["it"])).text
    assert re.search('<textarea [^>]*name="template"', page)
    assert re.search('<textarea [^>]*name="idempotency_key"', page)
    typed = {
        name: value.replace("\n", "\r\n") if isinstance(value, str) else value for name, value in filled(row).items()
    }
    assert admin.post(reverse("source-edit", args=["it"]), typed).status_code == 302
    row.refresh_from_db()
    assert (row.config, row.idempotency_key) == (config, key)


@pytest.mark.parametrize("limit", [{"limit": 10, "period": 3600}, {"limit": 5, "period": 1}, None])
def test_a_rate_limit_that_nobody_touched_stays_what_it_was(admin, limit):
    row = builders.source("github", rate_limit=limit)
    assert admin.post(reverse("source-edit", args=["github"]), filled(row)).status_code == 302
    row.refresh_from_db()
    assert row.rate_limit == limit


@pytest.mark.parametrize("kind", Source.KINDS)
def test_a_form_that_nobody_touched_changes_nothing(admin, settings, tmp_path, kind):
    settings.FILE_ROOTS = [str(tmp_path)]
    config = {
        name: value.split() if name in ("brokers", "topics") else value
        for name, value in LISTENED.get(kind, {}).items()
    }
    config |= {"schedule": {"cron": "0 8 * * *"}, "file": {"path": str(tmp_path)}}.get(kind, {})
    provider = {"provider": "github"} if kind == "webhook" else {}
    made = {
        "slug": "it",
        "kind": kind,
        "config": config,
        "dedupe_window": 700_000,
        "types": ["it.**", "x.*"],
        **provider,
    }
    assert admin.post("/api/v1/sources", made, content_type="application/json").status_code == 201
    before = Source.objects.values().get()
    answer = admin.post(reverse("source-edit", args=["it"]), filled(Source.objects.get()))
    assert answer.status_code == 302, answer.context["form"].errors
    after = Source.objects.values().get()
    assert {**after, "version": before["version"]} == before


@pytest.mark.parametrize("kind", LISTENED)
def test_a_source_that_is_listened_to_is_made_with_its_trigger(admin, settings, kind):
    """The page shows its form, blames nothing that is not finished, and keeps its fields apart from the handler's."""
    trigger = {"source": f"new:{kind}", "type_pattern": "**", "filter": "", "slug": "mine"}
    trigger |= {"timeout": "300", "retries": "3", "mode": "live", "priority": "5"}
    trigger["handler"] = "deploy"
    look = admin.post("/triggers/new", trigger | {"look": "1"})
    fields = sent(look.context["made"]) | {f"new-config-{name}": value for name, value in LISTENED[kind].items()}
    assert look.status_code == 200
    assert all(f'name="{name}"' in look.text for name in fields)
    assert not look.context["made"].inner.errors
    again = admin.post("/triggers/new", trigger | {"made": kind, "look": "1"})
    assert not again.context["made"].inner.errors
    refused = admin.post("/triggers/new", trigger | {"made": kind, "new-slug": "far"})
    assert refused.status_code == 422
    assert any("new-config" in one.id for one in refused.context["wrong"])
    made = admin.post("/triggers/new", trigger | fields | {"made": kind, "new-slug": "far"})
    assert made.status_code == 302, made.context["wrong"]
    assert (Source.objects.get().kind, Trigger.objects.get().source) == (kind, "far")
    assert (
        made.url == reverse("source-secret", args=["far"])
        if kind == "email"
        else reverse("trigger-edit", args=["mine"])
    )


def test_a_provider_that_names_who_did_it_says_where():
    """Loops are cut at every provider whose deliveries say who caused them."""
    silent = {name for name, scheme in catalogue().items() if "actor" not in scheme}
    nameless = {"generic", "none", "stripe", "shopify", "standard_webhooks", "svix", "sendgrid", "mailgun", "square"}
    assert silent == nameless | {"grafana", "alertmanager", "aws_sns", "azure_eventgrid", "cloudevents"}
