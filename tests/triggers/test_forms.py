"""Forms: what an admin types is checked where it is typed, said in words, and never lost."""

from datetime import timedelta

import pytest
from django.urls import reverse

from project.people import doors
from tests import builders
from triggers import configure, registry
from triggers.models import Audit, ConfigVersion, Event, Run, ScheduleFire, Source, Trigger
from triggers.sources.proof import most_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def handler(monkeypatch):
    code = registry.Handler(name="triage-issue", function=lambda run: None, doc="Looks at an issue.")
    monkeypatch.setitem(registry.HANDLERS, "triage-issue", code)


@pytest.fixture
def admin(owner, sign_in):
    """The owner's browser."""
    return sign_in(owner)


@pytest.fixture
def fresh(admin):
    """The owner has just typed the password again."""
    admin.post(reverse("step-up"), {"password": "a long enough password", "next": "/"})
    return admin


def typed(**fields):
    """A filled-in trigger form."""
    return {
        "source": "github",
        "type_pattern": "github.issues.*",
        "filter": "",
        "handler": "triage-issue",
        "config": "",
        "timeout": "300",
        "retries": "3",
        "mode": "live",
        "priority": "5",
        "name": "Triage",
        "slug": "triage",
        "enabled": "on",
        **fields,
    }


ALONE = {"at_once": "1", "busy": "skip", "waiting_counts": "on"}


def test_a_trigger_is_made_and_works_from_then_on(admin, owner):
    builders.source("github")
    before = ConfigVersion.current()
    answer = admin.post(reverse("trigger-new"), typed(filter='event.data.action == "opened"', **ALONE))
    row = Trigger.objects.get(slug="triage")
    assert answer.url == reverse("trigger-edit", args=["triage"])
    assert row.owner == owner
    assert row.filter_plan["clauses"]
    assert row.limits["concurrency"] == {"limit": 1, "key": "", "when_busy": "skip", "waiting_counts": True}
    assert ConfigVersion.current() > before
    assert Audit.objects.filter(verb="create", kind="trigger", ref="triage", by=owner).exists()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("filter", "event.data.ref ==", "it ends too early (line 1, column 18)"),
        ("filter", "event.data.ref = 'x'", "`=` is no part of the language"),
        ("type_pattern", "github issues", "pattern"),
        ("config", "{", "not JSON"),
        ("config", "[1]", "object"),
        ("config", '{"a": NaN}', "NaN is not JSON"),
        ("config", '{"a": 1e999}', "too large"),
        ("config", '{"a": "\\u0000"}', "NUL"),
        ("config", '{"\\ud800": 1}', "half a surrogate pair"),
        ("config", "[" * 5000, "not JSON"),
        ("config", '{"a":' * 500 + "1" + "}" * 500, "over 128 levels"),
        ("timeout", "0", "greater than or equal to 1"),
        ("priority", "11", "less than or equal to 9"),
        ("slug", "Not A Slug", "a-z"),
        ("slug", "new", "taken"),
        ("handler", "nobody", "not one of"),
        ("source", "nowhere", "not one of"),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_field_and_what_was_typed_stays(admin, field, value, said):
    builders.source("github")
    answer = admin.post(reverse("trigger-new"), typed(**{field: value, "name": "My very own name"}))
    text = answer.content.decode()
    assert answer.status_code == 422
    assert said.lower() in " ".join(answer.context["form"].errors.get(field, [""])).lower()
    assert "My very own name" in text
    assert not Trigger.objects.exists()


def test_a_taken_short_name_is_refused(admin):
    builders.source("github")
    builders.trigger(slug="triage")
    answer = admin.post(reverse("trigger-new"), typed())
    assert answer.status_code == 422
    assert answer.context["form"].errors["slug"]


def test_a_stale_form_changes_nothing_and_keeps_what_was_typed(admin):
    builders.source("github")
    row = builders.trigger(slug="triage")
    page = reverse("trigger-edit", args=["triage"])
    admin.post(page, typed(version="1", name="First"))
    answer = admin.post(page, typed(version="1", name="Second"))
    row.refresh_from_db()
    assert answer.status_code == 409
    assert (row.name, row.version) == ("First", 2)
    assert "Second" in answer.content.decode()
    assert "Somebody changed this" in answer.content.decode()


def test_saving_never_turns_a_trigger_on_or_off(admin):
    """AD-04: the second of two who change is told, and nothing else is switched by it."""
    builders.source("github")
    row = builders.trigger(slug="triage", enabled=False)
    admin.post(reverse("trigger-edit", args=["triage"]), typed(version="1"))
    row.refresh_from_db()
    assert row.version == 2
    assert not row.enabled
    admin.post(reverse("trigger-switch", args=["triage"]), {"on": "1"})
    row.refresh_from_db()
    assert row.enabled


def test_trying_a_filter_saves_nothing_and_says_what_it_would_do(admin):
    builders.source("github")
    builders.event(data={"action": "opened"})
    builders.event(data={"action": "closed"})
    answer = admin.post(reverse("trigger-new"), typed(filter='event.data.action == "opened"', **{"try": "1"}, slug=""))
    text = answer.content.decode()
    assert answer.status_code == 200
    assert text.count("Would start") == 1
    assert "closed" in text
    assert not Trigger.objects.exists()
    assert not Run.objects.exists()


def test_trying_a_broken_filter_says_so(admin):
    answer = admin.post(reverse("trigger-new"), typed(filter="event.", **{"try": "1"}))
    assert answer.status_code == 422
    assert answer.context["form"].errors["filter"]


def test_an_archived_trigger_wakes_nothing_and_is_not_edited(admin):
    builders.source("github")
    row = builders.trigger(slug="triage")
    admin.post(reverse("trigger-archive", args=["triage"]))
    row.refresh_from_db()
    assert row.archived_at
    assert not row.enabled
    assert (
        "triage" not in admin.get(reverse("triggers")).content.decode().split("Triggers</h1>")[1].split("archived")[0]
    )
    assert admin.get(reverse("trigger-edit", args=["triage"])).status_code == 200


def test_only_admins_change_what_wakes_whom(ann, sign_in):
    builders.source("github")
    builders.trigger(slug="triage")
    browser = sign_in(ann)
    assert browser.get(reverse("trigger-new")).status_code == 403
    assert browser.post(reverse("trigger-edit", args=["triage"]), typed(version="1")).status_code == 403
    assert browser.post(reverse("trigger-switch", args=["triage"]), {"on": "0"}).status_code == 403
    assert browser.post(reverse("source-switch", args=["github"]), {"on": "0"}).status_code == 403
    assert browser.post(reverse("source-edit", args=["github"]), {"version": "1"}).status_code == 403
    assert browser.get(reverse("source-secret", args=["github"])).status_code == 403
    assert Trigger.objects.get(slug="triage").version == 1


def test_a_webhook_is_made_then_given_its_secret_behind_a_fresh_sign_in(admin):
    made = admin.post(
        reverse("source-new"),
        {"kind": "webhook", "slug": "shop", "name": "", "provider": "generic", "types": "", "rate": "60"},
    )
    row = Source.objects.get(slug="shop")
    page = reverse("source-secret", args=["shop"])
    assert made.url == page
    assert row.rate_limit == {"limit": 60, "period": 60}
    assert admin.get(page).url.startswith(reverse("step-up"))
    admin.post(reverse("step-up"), {"password": "a long enough password", "next": page})
    form = admin.get(page)
    suggestion = form.context["form"]["value"].value()
    assert len(suggestion) > 30
    assert "no-store" in form["Cache-Control"]
    admin.post(page, {"value": suggestion, "keep": "no"})
    row.refresh_from_db()
    assert [secret["value"] for secret in row.secrets] == [suggestion]
    assert suggestion not in admin.get(reverse("source-edit", args=["shop"])).content.decode()
    assert suggestion not in str(list(Audit.objects.values()))


def test_two_secrets_are_valid_while_one_is_changed(fresh):
    row = builders.source("github")
    old = row.secrets[0]["value"]
    fresh.post(reverse("source-secret", args=["github"]), {"value": "a brand new secret", "keep": "day"})
    row.refresh_from_db()
    assert [secret["value"] for secret in row.secrets] == ["a brand new secret", old]
    assert row.secrets[1]["ends_at"]
    fresh.post(reverse("source-secret-end", args=["github"]), {"number": "1", "hint": row.secret_hints[1]["hint"]})
    row.refresh_from_db()
    assert [secret["value"] for secret in row.secrets] == ["a brand new secret"]


def test_a_secret_that_moved_meanwhile_is_not_ended_by_mistake(fresh):
    row = builders.source("github")
    fresh.post(reverse("source-secret-end", args=["github"]), {"number": "0", "hint": "…else"})
    row.refresh_from_db()
    assert len(row.secrets) == 1


def test_a_short_secret_is_refused(fresh):
    row = builders.source("github")
    answer = fresh.post(reverse("source-secret", args=["github"]), {"value": "short", "keep": "no"})
    assert answer.status_code == 422
    row.refresh_from_db()
    assert row.version == 1


def test_a_stale_proof_of_who_one_is_changes_no_secret(admin):
    row = builders.source("github")
    answer = admin.post(reverse("source-secret", args=["github"]), {"value": "a brand new secret", "keep": "no"})
    assert answer.url.startswith(reverse("step-up"))
    assert not doors.is_fresh(answer.wsgi_request)
    row.refresh_from_db()
    assert row.version == 1


@pytest.mark.parametrize(
    ("provider", "kept", "said"),
    [
        ("stripe", {"dedupe_window": 3600}, "Stripe sends again for 259200 seconds"),
        ("sendgrid", {}, "This is not what SendGrid shows"),
        ("stripe", {}, ""),
    ],
)
def test_another_provider_must_suit_how_long_repeats_are_known_and_the_secrets_that_are_kept(
    admin, provider, kept, said
):
    row = builders.source("shop", provider="generic", **kept)
    form = {"version": row.version, "name": "Shop", "provider": provider, "dedupe_window": row.dedupe_window}
    answer = admin.post(reverse("source-edit", args=["shop"]), form)
    row.refresh_from_db()
    if said:
        assert answer.status_code == 422
        assert said in answer.content.decode()
    assert row.provider == ("generic" if said else provider)


def schedule(**fields):
    plain = {"kind": "schedule", "slug": "nightly", "name": "Nightly", "rhythm": "cron", "cron": "30 2 * * *"}
    return {**plain, "every": "", "at": "", "timezone": "Europe/Berlin", "catch_up": "last", **fields}


def test_a_schedule_is_made_as_it_was_typed(admin):
    admin.post(reverse("source-new"), schedule())
    row = Source.objects.get(slug="nightly")
    assert row.config["cron"] == "30 2 * * *"
    assert row.config["timezone"] == "Europe/Berlin"
    admin.post(reverse("source-new"), schedule(slug="once", rhythm="at", at="2030-03-01T09:30"))
    assert Source.objects.get(slug="once").config["at"].startswith("2030-03-01T09:30")


def test_the_preview_says_what_a_clock_change_does_and_saves_nothing(admin, later):
    page = admin.post(reverse("source-new"), schedule(**{"try": "1"}))
    text = page.content.decode()
    assert page.status_code == 200
    assert "At 02:30 (Europe/Berlin)" in text
    assert text.count('class="mono" datetime') == 5
    assert not Source.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"rhythm": "every", "every": "0.2"}, "every"),
        ({"rhythm": "at", "at": "some day"}, "at"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"slug": "daily report"}, "slug"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_said_beside_its_field(admin, changes, field):
    answer = admin.post(reverse("source-new"), schedule(**changes))
    assert answer.status_code == 422
    assert answer.context["form"].errors[field]
    assert not Source.objects.exists()


def test_an_unchanged_schedule_keeps_its_next_slot(admin):
    admin.post(reverse("source-new"), schedule())
    row = Source.objects.get(slug="nightly")
    Source.objects.filter(pk=row.pk).update(next_fire_at=row.created_at + timedelta(days=1))
    admin.post(reverse("source-edit", args=["nightly"]), schedule(version=str(row.version), name="Other name"))
    row.refresh_from_db()
    assert row.name == "Other name"
    assert row.next_fire_at


@pytest.mark.parametrize("config", [{"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, {"every": 600}])
def test_a_schedule_of_the_api_keeps_its_next_slot_too(admin, config):
    row = configure.make_source(by=None, slug="nightly", kind="schedule", config=config)
    slot = row.created_at + timedelta(days=1)
    Source.objects.filter(pk=row.pk).update(next_fire_at=slot)
    form = admin.get(reverse("source-edit", args=["nightly"])).context["form"]
    typed = {name: field.value() for name, field in zip(form.fields, form, strict=True) if field.value() is not None}
    admin.post(reverse("source-edit", args=["nightly"]), {**typed, "name": "Other name"})
    row.refresh_from_db()
    assert (row.name, row.next_fire_at, row.config) == ("Other name", slot, config)
    configure.change_source(row, by=None, version=row.version, enabled=True, config={**config, "catch_up": "last"})
    row.refresh_from_db()
    assert row.next_fire_at == slot


def test_a_time_with_its_own_offset_is_read_and_kept_on_the_clock_of_its_schedule(admin):
    config = {"at": "2030-12-01T09:00:30Z", "timezone": "Europe/Berlin"}
    row = configure.make_source(by=None, slug="once", kind="schedule", config=config)
    page = admin.get(reverse("source-edit", args=["once"]))
    assert page.context["plan"]["words"] == "Once, on 2030-12-01 10:00 (Europe/Berlin)"
    assert page.context["form"]["at"].value() == "2030-12-01T10:00"
    plain = schedule(rhythm="at", cron="", at="2030-12-01T10:00", version=row.version, name="Other name")
    admin.post(reverse("source-edit", args=["once"]), plain)
    row.refresh_from_db()
    assert (row.name, row.config["at"]) == ("Other name", "2030-12-01T09:00:30Z")
    moved = {**plain, "version": row.version, "timezone": "Asia/Tokyo"}
    admin.post(reverse("source-edit", args=["once"]), moved)
    row.refresh_from_db()
    assert row.config["at"].startswith("2030-12-01T10:00")  # in Tokyo now


def test_an_unsigned_source_warns_for_as_long_as_it_is_one(admin):
    builders.source("open", provider="none", secrets=())
    assert "Nobody signs" in admin.get(reverse("source-edit", args=["open"])).content.decode()
    assert "not signed" in admin.get(reverse("sources")).content.decode()


def test_an_operator_rings_a_schedule_now(ann, sign_in):
    row = builders.source("daily", kind="schedule", provider="", secrets=(), config={"cron": "0 8 * * *"})
    answer = sign_in(ann).post(reverse("source-ring", args=["daily"]))
    event = Event.objects.get(source=row)
    assert answer.url == reverse("event", args=[event.pk])
    assert not ScheduleFire.objects.exists()  # its slots stay as they are


def webhook(**fields):
    """A filled-in form of a webhook source whose scheme is described."""
    scheme = {"header": "X-Bank-Signature", "algorithm": "hmac-sha256", "encoding": "hex", "template": "{body}"}
    return {"kind": "webhook", "slug": "bank", "provider": "custom", "before": "v1=", **scheme, **fields}


def test_a_scheme_of_ones_own_is_described_in_the_form(admin):
    signed = {"template": "{h:X-Time}.{body}", "timestamp": "{h:X-Time}", "tolerance": "60"}
    answer = admin.post(reverse("source-new"), webhook(**signed))
    assert answer.url == reverse("source-secret", args=["bank"])
    row = Source.objects.get(slug="bank")
    assert row.config == {
        "header": "X-Bank-Signature",
        "prefix": "v1=",
        "template": "{h:X-Time}.{body}",
        "timestamp": "{h:X-Time}",
        "tolerance": 60,
    }
    page = admin.get(reverse("source-edit", args=["bank"]))
    assert page.context["form"]["before"].value() == "v1="
    assert '<details class="raw" open>' in page.content.decode()


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"header": ""}, "header", "Say which header"),
        ({"template": "{h:X-Time}"}, "template", "anybody could change"),
        ({"template": "{sig.t}{body}", "before": "V1"}, "before", "names the signature"),
        ({"tolerance": "60"}, "timestamp", "goes with the tolerance"),
        ({"slug": "new"}, "slug", "taken"),
        ({"slug": "published"}, "slug", "kept for events that actions publish"),
    ],
)
def test_a_scheme_that_proves_nothing_is_refused_at_its_field(admin, changes, field, said):
    answer = admin.post(reverse("source-new"), webhook(**changes))
    assert answer.status_code == 422
    assert said in answer.context["form"].errors[field][0]
    assert not Source.objects.exists()


def test_a_body_may_be_as_large_as_its_provider_sends_it_unless_somebody_says_less(admin, settings):
    page = admin.get(reverse("source-new"), {"kind": "webhook"}).content.decode()
    assert "Empty: 1,048,576, for GitHub 26,214,400." in page
    admin.post(reverse("source-new"), webhook(slug="code", provider="github"))
    admin.post(reverse("source-new"), webhook(slug="bank", provider="generic"))
    admin.post(reverse("source-new"), webhook(slug="little", provider="github", max_body="1000"))
    caps = {row.slug: (row.max_body, most_of(row)) for row in Source.objects.all()}
    assert caps == {"code": (None, 26_214_400), "bank": (None, settings.MAX_BODY_BYTES), "little": (1000, 1000)}


def test_every_provider_of_the_catalogue_can_be_chosen(admin):
    page = admin.get(reverse("source-new"), {"kind": "webhook"}).content.decode()
    for name in ("Standard Webhooks", "Stripe", "Grafana alerting", "A scheme of your own", "Nobody: unsigned"):
        assert name in page


def test_the_page_of_a_source_says_where_the_body_goes_and_shows_the_first_call_whole(admin):
    builders.source("generic", provider="generic")
    page = admin.get(reverse("source-edit", args=["generic"])).content.decode()
    assert "SECRET=&#x27;paste the secret here&#x27;" in page
    assert "<code>event.data.data.hello</code>" in page
    assert '<details class="raw mt2" open><summary>Try it with curl' in page
