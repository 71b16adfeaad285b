"""One page, "When … do …": it picks or makes the source, types the config, tries the filter, and saves once."""

from decimal import Decimal
from typing import Literal

import pytest
from django.urls import reverse
from pydantic import BaseModel, Field, model_validator

from tests import builders
from tests.triggers.test_forms import typed
from triggers import configure, registry
from triggers.forms.config import ConfigForm
from triggers.models import Audit, Run, Source, Trigger

pytestmark = pytest.mark.django_db


class Greeting(BaseModel):
    """What the handler of these tests can be told."""

    name: str = Field(description="Who is greeted.")
    times: int = Field(1, ge=1, le=3)
    tone: Literal["warm", "cool"] = "warm"
    loud: bool = False
    words: list[str] = []
    extra: dict[str, int] | None = None

    @model_validator(mode="after")
    def whispers_are_short(self):
        if not self.loud and self.times == 3:
            raise ValueError("three times only when it is loud")
        return self


@pytest.fixture(autouse=True)
def handlers(monkeypatch):
    for name, config in (("greet", Greeting), ("triage-issue", None)):
        code = registry.Handler(name=name, function=print, config=config, doc=f"What {name} does.")
        monkeypatch.setitem(registry.HANDLERS, name, code)


@pytest.fixture
def admin(owner, sign_in):
    return sign_in(owner)


NEW = "/triggers/new"
GREET = {"handler": "greet", "config-name": "Ann", "config-times": "1", "config-tone": "warm", "config_of": "greet"}
DOOR = {
    "source": "new:webhook",
    "made": "webhook",
    "new-slug": "shop",
    "new-name": "",
    "new-provider": "generic",
    "new-rate": "600",
}


def test_one_press_makes_the_source_and_the_trigger_and_leads_to_its_secret(admin, owner):
    answer = admin.post(NEW, typed(**DOOR, type_pattern="order.*", enabled=""))
    source, trigger = Source.objects.get(), Trigger.objects.get()
    assert (source.slug, source.kind, source.provider, source.name) == ("shop", "webhook", "generic", "shop")
    assert (trigger.source, trigger.type_pattern, trigger.enabled) == ("shop", "order.*", False)
    assert answer.url == reverse("source-secret", args=["shop"])
    assert set(Audit.objects.filter(verb="create", by=owner).values_list("kind", "ref")) == {
        ("source", "shop"),
        ("trigger", "triage"),
    }


@pytest.mark.parametrize(
    ("kind", "more", "config"),
    [
        ("schedule", {"rhythm": "cron", "cron": "0 8 * * *", "timezone": "UTC", "catch_up": "last"}, "cron"),
        ("cloudevents", {}, None),
    ],
)
def test_every_kind_can_be_made_here(admin, kind, more, config):
    fields = {"source": f"new:{kind}", "made": kind, "new-slug": "fresh"} | {f"new-{k}": v for k, v in more.items()}
    answer = admin.post(NEW, typed(**fields))
    assert answer.status_code == 302, answer.context["made"].errors
    assert Source.objects.get().kind == kind
    assert config is None or config in Source.objects.get().config


@pytest.mark.parametrize(
    ("wrong", "form", "field"),
    [
        ({"new-slug": "Not A Slug"}, "made", "slug"),
        ({"new-slug": "github"}, "made", "slug"),
        ({"new-types": "a b"}, "made", "types"),
        ({"filter": "event.data.ref =="}, "form", "filter"),
        ({"slug": "taken"}, "form", "slug"),
    ],
)
def test_what_is_wrong_stands_at_its_field_and_neither_is_made(admin, wrong, form, field):
    builders.source("github")
    builders.trigger(slug="taken")
    answer = admin.post(NEW, typed(**{**DOOR, "name": "My very own name", **wrong}))
    assert answer.status_code == 422
    assert answer.context[form].errors[field]
    text = answer.content.decode()
    assert "My very own name" in text
    assert 'value="new:webhook" selected' in text
    assert 'value="generic" selected' in text
    assert (Source.objects.count(), Trigger.objects.count()) == (1, 1)


def test_everything_that_is_wrong_is_said_at_once(admin):
    wrong = {**DOOR, "new-slug": "", **GREET, "config-times": "many", "timeout": "0"}
    answer = admin.post(NEW, typed(**wrong))
    assert answer.context["made"].errors["slug"]
    assert answer.context["config"].errors["times"]
    assert answer.context["form"].errors["timeout"]


def test_a_choice_shows_what_it_needs_and_keeps_what_was_typed(admin):
    builders.source("github")
    text = admin.post(NEW, typed(source="new:schedule", name="Nightly", slug="", look="1")).content.decode()
    assert "When it rings" in text
    assert 'value="0 8 * * *"' in text  # what a new one starts with
    assert 'value="Nightly"' in text
    assert 'class="err"' not in text
    text = admin.post(NEW, typed(handler="greet", look="1")).content.decode()
    assert "Who is greeted." in text
    assert 'name="config-times" value="1"' in text
    assert 'class="err"' not in text
    assert not Trigger.objects.exists()


def test_a_config_is_typed_and_what_follows_the_code_is_not_stored(admin):
    builders.source("github")
    admin.post(NEW, typed(**GREET))
    assert Trigger.objects.get().config == {"name": "Ann"}
    page = reverse("trigger-edit", args=["triage"])
    changed = {"config-loud": "on", "config-words": "a\nb", "config-extra": '{"x": 1}', "config-tone": "cool"}
    admin.post(page, typed(version="1", **{**GREET, **changed}))
    config = {"name": "Ann", "loud": True, "words": ["a", "b"], "extra": {"x": 1}, "tone": "cool"}
    assert Trigger.objects.get().config == config
    text = admin.get(page).content.decode()
    assert 'value="Ann"' in text
    assert 'value="cool" selected' in text
    assert "a\nb</textarea>" in text


class Limit(BaseModel):
    over: Decimal = Decimal(500)


def test_a_decimal_that_is_posted_back_as_it_is_shown_is_the_default_still():
    empty = ConfigForm(Limit)
    shown = empty["over"].value()
    assert (shown, empty.members[0].words, empty.members[0].default_words) == (500, "number", "500")
    form = ConfigForm(Limit, {"config-over": str(shown)})
    assert form.is_valid(), form.errors
    assert form.config() == {}


@pytest.mark.parametrize(
    ("typed", "stored"),
    [("750", 750), ("0.10", 0.1), ("0.1234567890123456789", "0.1234567890123456789"), ("1e400", "1E+400")],
)
def test_a_decimal_is_stored_as_exactly_as_it_was_typed(typed, stored):
    form = ConfigForm(Limit, {"config-over": typed})
    assert form.is_valid(), form.errors
    assert form.config() == {"over": stored}
    assert Limit.model_validate(form.config()).over == Decimal(typed)


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"config-name": ""}, "name", "required"),
        ({"config-times": "9"}, "times", "less than or equal to 3"),
        ({"config-times": "x"}, "times", "whole number"),
        ({"config-tone": "grey"}, "tone", "not one of"),
        ({"config-extra": "{"}, "extra", "not JSON"),
        ({"config-extra": '{"a": "b"}'}, "extra", "a: "),
        ({"config-extra": '{"a": NaN}'}, "extra", "NaN is not JSON"),
        ({"config-extra": '{"a": 1e999}'}, "extra", "too large"),
        ({"config-extra": '{"\\ud800": 1}'}, "extra", "half a surrogate pair"),
        ({"config-extra": '{"\\u0000": 1}'}, "extra", "NUL"),
        ({"config-extra": "[" * 5000}, "extra", "not JSON"),
        ({"config-times": "3"}, "__all__", "only when it is loud"),
    ],
)
def test_what_the_model_refuses_is_said_beside_its_member(admin, wrong, field, said):
    builders.source("github")
    answer = admin.post(NEW, typed(**{**GREET, **wrong}))
    assert answer.status_code == 422
    errors = answer.context["config"].errors
    assert said in " ".join(errors.get(field, [])), errors
    assert not Trigger.objects.exists()


def test_the_filter_is_tried_while_it_is_typed_and_nothing_is_saved(admin):
    builders.source("github")
    for action in ("opened", "opened", "closed"):
        builders.event("github.issues.x", data={"action": action})
    fields = {"type_pattern": "github.issues.*", "filter": 'event.data.action == "opened"', "slug": "", "try": "1"}
    text = admin.post(NEW, typed(**fields)).content.decode()
    assert "2 of the last 3 events of this source would start it" in text
    assert "was &#x27;closed&#x27;, wanted &#x27;opened&#x27;" in text
    broken = admin.post(NEW, typed(**{**fields, "filter": "event."}))
    assert broken.status_code == 422
    assert 'id="id_filter_error"' in broken.content.decode()
    assert not Trigger.objects.exists()
    assert not Run.objects.exists()


def test_types_that_came_are_suggested_with_what_they_have_in_common(admin):
    builders.source("github")
    for type in ("github.issues.opened", "github.issues.closed", "github.push"):
        builders.event(type)
    builders.event("stripe.paid", source_slug="stripe")
    page = admin.get(NEW + "?source=github")
    assert page.context["types"] == ["github.issues.*", "github.issues.closed", "github.issues.opened", "github.push"]


def test_saving_and_turning_on_are_two_things(admin):
    builders.source("github")
    admin.post(NEW, typed(enabled=""))
    page = admin.get(reverse("trigger-edit", args=["triage"])).content.decode()
    assert not Trigger.objects.get().enabled
    assert "It is off." in page
    admin.post(reverse("trigger-switch", args=["triage"]), {"on": "1"})
    assert Trigger.objects.get().enabled
    admin.post(NEW, typed(slug="second", enabled="on"))
    assert Trigger.objects.get(slug="second").enabled


def test_a_trigger_can_move_to_a_source_that_is_made_with_the_change(admin):
    builders.source("github")
    builders.trigger(slug="triage")
    admin.post(reverse("trigger-edit", args=["triage"]), typed(version="1", **DOOR))
    assert Trigger.objects.get().source == "shop"
    stale = admin.post(reverse("trigger-edit", args=["triage"]), typed(version="1", **{**DOOR, "new-slug": "other"}))
    assert stale.status_code == 409
    assert set(Source.objects.values_list("slug", flat=True)) == {"github", "shop"}


def test_a_handlers_page_says_what_can_be_set_and_starts_a_trigger_with_it(admin, ben, sign_in):
    builders.source("github")
    builders.trigger("greet", slug="greet-all")
    builders.run("greet", status="dead", started_at=None, finished_at=builders.event().received_at)
    text = admin.get(reverse("handler", args=["greet"])).content.decode()
    for said in ("What greet does.", "Who is greeted.", "one of warm, cool", "needed", "greet-all", "R-"):
        assert said in text
    assert 'href="/triggers/new?handler=greet"' in text
    assert 'value="greet" selected' in admin.get(NEW + "?handler=greet").content.decode()
    assert "/triggers/new" not in sign_in(ben).get(reverse("handler", args=["greet"])).content.decode()
    assert admin.get(reverse("handler", args=["nobody"])).status_code == 404
    builders.trigger("gone", slug="waits")
    assert "No code is loaded" in admin.get(reverse("handler", args=["gone"])).content.decode()


def test_a_file_that_cannot_be_loaded_is_shown_with_the_last_line_of_its_traceback(admin, monkeypatch, tmp_path):
    trace = 'Traceback (most recent call last):\n  File "mine.py", line 3\nNameError: name "x" is not defined\n'
    broken = registry.BrokenFile(str(tmp_path / "mine.py"), "NameError", trace)
    monkeypatch.setitem(registry.BROKEN, "mine.py", broken)
    text = admin.get(reverse("handlers")).content.decode()
    assert "<code>NameError: name &quot;x&quot; is not defined</code>" in text
    assert "line 3" in text


def test_the_newest_runs_of_each_handler_are_shown_by_outcome(admin):
    for name in ("greet", "triage-issue"):
        for _ in range(7):
            builders.run(name)
    lines = {row.name: row for row in admin.get(reverse("handlers")).context["handlers"]}
    newest = [run.pk for run in Run.objects.filter(handler="greet").order_by("-pk")[:5]]
    assert [run.pk for run in lines["greet"].runs] == newest
    assert len(lines["triage-issue"].runs) == 5


def test_an_older_version_is_put_into_the_form_and_saved_as_a_new_one(admin, owner):
    builders.source("github")
    row = builders.trigger(slug="triage", filter="event.data.a == 1", priority=3, enabled=False)
    row = configure.change_trigger(row, by=owner, version=1, filter="event.data.a == 2", priority=4)
    row.enable(by=owner)
    page = admin.get(reverse("trigger-edit", args=["triage"]))
    assert 'href="?restore=1"' in page.content.decode()
    assert 'href="?restore=3"' not in page.content.decode(), "it is that"
    form = admin.get(reverse("trigger-edit", args=["triage"]), {"restore": "1"}).context["form"]
    shown = {field.html_name: field.value() for field in form if field.value() is not None}
    assert (shown["filter"], shown["priority"], shown["version"]) == ("event.data.a == 1", 3, row.version)
    saved = {name: "" if value is False else value for name, value in shown.items()}
    admin.post(reverse("trigger-edit", args=["triage"]), saved)
    row.refresh_from_db()
    assert (row.filter, row.priority, row.enabled, row.version) == ("event.data.a == 1", 3, True, 4)
    for odd in ("99", "x", "-1"):
        assert "An older version" not in admin.get(f"/triggers/triage?restore={odd}").content.decode()


def test_an_agent_without_a_model_is_told_what_to_set_and_that_rules_are_used(admin, settings):
    assert registry.HANDLERS["agent"].config
    missing, rules = "No model is set: set LLM_MODEL", "works by rules instead"

    def told(**config: str) -> tuple[bool, bool]:
        text = admin.post(NEW, typed(handler="agent", config_of="agent", look="1", **config)).content.decode()
        return missing in text, rules in text

    assert told(**{"config-instructions": "Help."}) == (True, False)
    assert told(**{"config-otherwise": "triage-issue"}) == (False, True)
    assert told(**{"config-model": "openai:gpt-5"}) == (False, False)
    settings.LLM_MODEL = "openai:gpt-5"
    assert told() == (False, False)
    row = builders.trigger("agent", slug="helper", config={"instructions": "Help.", "otherwise": "triage-issue"})
    page = reverse("trigger-edit", args=[row.slug])
    assert rules not in admin.get(page).content.decode()
    settings.LLM_MODEL = ""
    assert rules in admin.get(page).content.decode()
