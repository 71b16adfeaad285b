"""What the desk did itself at the far side is kept and starts nothing, at every provider that says who did it."""

import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.test import Client
from django.urls import reverse

from project import samples, signing
from project.lib import crypto
from project.people.models import User
from tests import builders
from tests.deliveries import deliver
from triggers.models import Event, Run, Source

pytestmark = pytest.mark.django_db(transaction=True)
DID_IT: dict[str, tuple[dict[str, Any], dict[str, str]]] = {  # by provider: a body in which `desk-bot` did it
    "github": ({"action": "opened", "sender": {"login": "desk-bot"}}, {"X-GitHub-Event": "issues"}),
    "gitlab": ({"object_kind": "note", "user": {"username": "desk-bot"}}, {"X-Gitlab-Event": "Note Hook"}),
    "gitlab-push": ({"object_kind": "push", "user_username": "desk-bot"}, {"X-Gitlab-Event": "Push Hook"}),
    "bitbucket": ({"actor": {"nickname": "desk-bot"}}, {"X-Event-Key": "repo:push"}),
    "bitbucket-account": ({"actor": {"account_id": "desk-bot"}}, {"X-Event-Key": "repo:push"}),
    "bitbucket-server": ({"actor": {"name": "desk-bot"}}, {"X-Event-Key": "repo:refs_changed"}),
    "jira": ({"webhookEvent": "jira:issue_updated", "user": {"accountId": "desk-bot"}}, {}),
    "jira-comment": ({"webhookEvent": "comment_created", "comment": {"updateAuthor": {"accountId": "desk-bot"}}}, {}),
    "sentry": ({"action": "resolved", "actor": {"id": "desk-bot"}}, {"Sentry-Hook-Resource": "issue"}),
    "pagerduty": ({"event": {"event_type": "incident.resolved", "agent": {"id": "desk-bot"}}}, {}),
    "linear": ({"action": "create", "actor": {"id": "desk-bot"}, "webhookTimestamp": 0}, {"Linear-Event": "Issue"}),
    "zoom": ({"event": "meeting.ended", "payload": {"operator": "desk-bot"}}, {}),
    "telegram": ({"update_id": 1, "message": {"from": {"username": "desk-bot"}}}, {}),
    "slack": ({"type": "event_callback", "event": {"type": "message", "bot_id": "desk-bot"}}, {}),
    "custom": ({"by": {"login": "desk-bot"}}, {}),
}
OWN_SCHEME = {"header": "X-Signature", "actor": "{json:by.login}"}


@pytest.mark.parametrize("name", DID_IT)
@pytest.mark.parametrize(
    ("actor", "status"), [("desk-bot", "suppressed"), ("Desk-Bot", "suppressed"), ("mona", "routed")]
)
def test_what_the_desk_did_itself_starts_nothing(name: str, actor: str, status: str) -> None:
    body, headers = DID_IT[name]
    provider = name.partition("-")[0]
    config = OWN_SCHEME if provider == "custom" else {}
    source = builders.source("it", provider=provider, actor=actor, config=config, types=["**"])
    builders.trigger("triage-issue", source="it")
    if "webhookTimestamp" in body:
        body = body | {"webhookTimestamp": int(time.time() * 1000)}
    proved = signing.signed(
        source, {"Content-Type": "application/json", **headers}, orjson.dumps(body), samples.folder(), time.time()
    )
    [answer] = deliver({"slug": "it", "body": proved.body, "headers": proved.headers})
    assert answer.status < 300
    assert Event.objects.get().status == status
    assert Run.objects.exists() == (status == "routed")


def test_an_actor_is_refused_where_no_delivery_says_who_did_it(owner: User, sign_in: Callable[[User], Client]) -> None:
    client = sign_in(owner)

    def made(**fields: Any) -> Any:
        given = {"slug": "it", "kind": "webhook", "actor": "desk-bot", **fields}
        return client.post("/api/v1/sources", given, content_type="application/json")

    for fields in ({"provider": "grafana"}, {"provider": "generic"}, {"kind": "cloudevents"}):
        assert (made(**fields).status_code, made(**fields).json()["field"]) == (422, "actor"), fields
    nameless = {"provider": "custom", "config": {"header": "X-Signature"}}
    assert "{json:user.login}" in made(**nameless).json()["detail"]
    in_a_header = {"provider": "custom", "config": {"header": "X-Signature", "actor": "{h:X-User}"}}
    assert made(**in_a_header).json()["field"] == "actor"
    assert made(provider="custom", config=OWN_SCHEME).status_code == 201
    other = {"version": 1, "config": {"header": "X-Signature"}}
    patched = client.patch("/api/v1/sources/it", other, content_type="application/json")
    assert (patched.status_code, patched.json()["field"]) == (422, "actor"), "it would hold nothing back any more"


def test_a_source_from_before_keeps_what_it_was_told(owner: User, sign_in: Callable[[User], Client]) -> None:
    """Whatever the form or the API change of it, an actor that nobody reads is in nobody's way."""
    builders.source("ours", provider="custom", config={"header": "X-S"}, actor="desk-bot")
    own = {"version": 1, "rate_limit": {"limit": 5, "period": 60}}
    assert sign_in(owner).patch("/api/v1/sources/ours", own, content_type="application/json").status_code == 200
    page = sign_in(owner).get(reverse("source-edit", args=["ours"])).context["form"]
    shown = {name: page[name].value() for name in page.fields}
    typed = {name: value for name, value in shown.items() if value not in (None, False)}
    answer = sign_in(owner).post(reverse("source-edit", args=["ours"]), typed | {"types": "**", "name": "Ours"})
    assert (answer.status_code, Source.objects.get(slug="ours").name) == (302, "Ours")
    own = {"version": 3, "actor": "another"}
    assert sign_in(owner).patch("/api/v1/sources/ours", own, content_type="application/json").status_code == 422
    builders.source("alerts", provider="grafana", actor="desk-bot")
    given = {"version": 1, "name": "Alerts"}
    assert sign_in(owner).patch("/api/v1/sources/alerts", given, content_type="application/json").status_code == 200
    assert crypto.unseal(Source.objects.get(slug="alerts").sealed_secrets)
