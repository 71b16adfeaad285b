"""AP-01: whoever opens a link, a mail scanner, a chat preview, a browser that fetches ahead: it decides nothing."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle
from urllib.parse import unquote_plus

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import Client, override_settings

from approvals import channels, link_views, mornings, telling
from approvals import links as one_builder
from approvals.carriers import CARRIERS, TO_ONE
from approvals.models import Action, Channel, Connection, Notice
from project.lib import clock, crypto
from project.people.models import User
from tests import addresses, builders, feishu
from tests.approvals.test_argument_forms import PULL
from tests.approvals.test_carriers import ADDRESS, GOOD
from tests.conftest import PASSWORD
from tests.contract.test_who_may_open_the_admin import ADMIN, EACH
from tests.dump import differences, everything
from tests.house import tree
from tests.house.test_pages import ALL
from tests.nodding import say
from tests.recorder import Recorder
from tests.telling import a_mailbox, reach

pytestmark = pytest.mark.django_db
TO_A_PERSON = "feishu to one person"
WAYS = (*CARRIERS, TO_A_PERSON)
READERS = {
    "a mail scanner": {"user-agent": "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Safelinks"},
    "a chat preview": {"user-agent": "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
    "a social preview": {"user-agent": "facebookexternalhit/1.1"},
    "another chat's preview": {"user-agent": "TelegramBot (like TwitterBot)"},
    "a browser that fetches ahead": {"purpose": "prefetch", "sec-purpose": "prefetch;prerender"},
    "nobody in particular": {"user-agent": ""},
    "a person": {"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
}


@pytest.fixture
def asked(ann) -> Action:
    return builders.action(by=ann, run=builders.run(), connection=builders.connection(), arguments=PULL)


def links(action: Action) -> list[str]:
    """Every address of the desk, for this action, with all that a careless link could carry."""
    said = f"?verdict=approve&digest={action.digest}&revision=1&reason=yes&status=delivered&do=save&done={action.pk}"
    pages = [path.replace("/actions/1", f"/actions/{action.pk}") for path, _ in ALL]
    api = [addresses.filled(route.replace("/actions/<int:id>", f"/actions/{action.pk}")) for route in addresses.API]
    return sorted({path + said for path in (*pages, *api, *ADMIN[:9])})


def look(client: Client, paths: list[str], readers: Iterable[dict[str, str]]) -> None:
    for path, headers in zip(paths, cycle(readers), strict=False):
        for method in ("get", "head", "options"):
            answer = getattr(client, method)(path, headers=headers)
            assert answer.status_code < 500 or path.startswith("/readyz"), path


def test_no_link_of_the_desk_decides_whoever_follows_it(asked):
    before, paths = everything(), links(asked)
    assert len(paths) > 150
    for reader in READERS.values():
        look(Client(), paths, [reader])
    assert differences(before, everything()) == {}


@pytest.mark.parametrize("reader", READERS)
def test_no_link_of_the_action_decides_twenty_times_over(reader, asked):
    """AP-02: a preview of a chat follows every link and decides nothing."""
    before = everything()
    own = [path for path in links(asked) if f"/actions/{asked.pk}" in path]
    assert len(own) > 8
    look(Client(), own * 3, [READERS[reader]])
    for _ in range(20):
        Client().get(f"/actions/{asked.pk}?verdict=approve", headers=READERS[reader], follow=True)
    assert differences(before, everything()) == {}


def test_no_link_decides_in_the_browser_of_somebody_who_may(asked, owner, sign_in):
    """Fetched ahead, with the session of somebody who may do everything and has just proved who he is."""
    browser = sign_in(owner)
    browser.post("/step-up", {"password": PASSWORD, "next": "/"})
    before = everything()
    for reader in ("a browser that fetches ahead", "a person"):
        look(browser, links(asked), [READERS[reader]])
    row = f"/admin/people/user/{asked.requested_by_id}"
    lists = [path for path in ADMIN if path.count("/") == 4]
    for path, verb in zip([*EACH, *lists], cycle(("GET", "HEAD", "OPTIONS", "GET", "HEAD")), strict=False):
        answer = browser.generic(verb, f"{path}?_delete=1&post=yes&action=delete_selected")
        assert answer.status_code < 500, (verb, path)
    for path in (f"{row}/change/", f"{row}/delete/", f"{row}/password/"):
        assert browser.get(f"{path}?_delete=1&post=yes&action=delete_selected").status_code < 400, path
    assert differences(before, everything()) == {}


def test_a_person_opens_the_link_signs_in_reads_and_presses_once(asked, ben):
    browser = Client()
    for _ in range(20):
        Client().get(f"/actions/{asked.pk}", follow=True, headers=READERS["a mail scanner"])
    closed = browser.get(f"/actions/{asked.pk}", follow=True)
    assert closed.redirect_chain[-1][0].startswith("/sign-in")
    assert "acme/shop" not in closed.content.decode()
    browser.force_login(ben, backend="django.contrib.auth.backends.ModelBackend")
    page = browser.get(f"/actions/{asked.pk}").content.decode()
    assert "csrfmiddlewaretoken" in page
    seen = {"verdict": "approve", "digest": asked.digest, "revision": 1}
    browser.post(f"/actions/{asked.pk}/decisions", seen)
    asked.refresh_from_db()
    assert (asked.status, asked.decisions.count()) == ("approved", 1)


def test_no_address_of_the_desk_holds_anything_that_opens_it(asked, ben, sign_in):
    """AP-10: a link that leaks opens a sign-in; and what is clicked on a page is not told to others."""
    page = sign_in(ben).get(f"/actions/{asked.pk}")
    addresses = re.findall(r'(?:href|action|hx-[a-z]+)="([^"]+)"', page.content.decode())
    assert len(addresses) > 10
    known = {"/static/", "#"}
    for address in addresses:
        assert not re.search(r"[A-Za-z0-9_-]{22,}", address.partition("?")[0]) or address.startswith(tuple(known))
        assert not re.search(r"(token|secret|sig|key)=", address)
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert Client().get(f"/actions/{asked.pk}").headers["location"].startswith("/sign-in")


@pytest.fixture
def link(asked, ben) -> str:
    """Where the message leads that Ben got."""
    with a_mailbox() as box:
        reach(ben, "post", "ben@example.org")
        telling.tick()
        [mail] = box.taken
    return re.search(rf"{re.escape(settings.BASE_URL)}(/go/\S+)", mail.message.get_content())[1]


def test_a_preview_of_a_link_is_told_nothing(asked, link):
    """AP-02: a chat that looks at it finds a sign-in, which no search engine keeps and no cache."""
    for reader in READERS.values():
        page = Client().get(link, follow=True, headers=reader)
        for answer in (Client().get(link, headers=reader), page):
            assert "noindex" in answer.headers["X-Robots-Tag"]
        assert "no-store" in page.headers["Cache-Control"]
        said = page.content.decode().replace(link, "")
        assert not [word for word in (asked.title, "acme/shop", asked.digest, f"A-{asked.pk}") if word in said]


def test_what_a_link_opens_tells_its_address_to_nobody(asked, link, ann, ben, sign_in):
    """AP-10: while it is open, once it is over, and to whom it was not made for."""
    others = sign_in(ann).get(link), sign_in(ben).get(f"{link[:-1]}{'0' if link[-1] != '0' else '1'}")
    opened = sign_in(ben).get(link)
    asked.move("cancel", settled_at=clock.now())
    over = sign_in(ben).get(link)
    assert [answer.status_code for answer in (*others, opened, over)] == [404, 404, 302, 200]
    assert {answer.headers["Referrer-Policy"] for answer in (*others, opened, over)} == {"no-referrer"}
    for page in (*others, over):
        said = page.content.decode()
        assert '<meta name="referrer" content="no-referrer">' in said
        assert "<form" not in said, "a browser that sends no referrer sends the origin `null`, and no form gets through"
    assert len({re.sub(r'data-\S+="[^"]*"', "", page.content.decode()) for page in others}) == 1, "says why to nobody"


def test_who_tries_many_links_must_wait_and_nobody_else(asked, link, ben, ann, sign_in, monkeypatch):
    """AP-10: also for the right one, else each try would say whether it was."""
    monkeypatch.setattr(link_views, "MOST_WRONG", 3)
    browser, number = sign_in(ben), link.rpartition("-")[0]
    assert [browser.get(f"{number}-{guess:040}").status_code for guess in range(5)] == [404, 404, 404, 429, 429]
    refused = browser.get(link)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    assert refused.headers["Referrer-Policy"] == "no-referrer"
    assert sign_in(ann).get(link).status_code == 404, "she has not tried yet"
    cache.clear()  # what a minute does
    assert browser.get(link).status_code == 302


def test_signing_in_on_the_way_of_a_link_gets_through_over_https(link, ben):
    """The one page with a form whose address holds a link: it tells its own desk from where it posts, and only it."""
    browser = Client(enforce_csrf_checks=True)
    page = browser.get(link, secure=True, follow=True)
    path, _ = page.redirect_chain[-1]
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert '<meta name="referrer" content="same-origin">' in page.content.decode()
    form = {
        "username": ben.username,
        "password": PASSWORD,
        "next": link,
        "csrfmiddlewaretoken": page.context["csrf_token"],
    }
    for silent in ({}, {"origin": "null"}):  # as if it were `no-referrer`
        assert browser.post("/sign-in", form, secure=True, headers=silent).status_code == 403
    answer = browser.post("/sign-in", form, secure=True, headers={"referer": f"https://testserver{path}"})
    assert (answer.status_code, answer.headers["location"]) == (302, link)


def test_the_mark_of_a_link_is_kept_nowhere(asked, link, ben, owner, sign_in, caplog):
    """AP-10: it is made anew from the row and our key; no row, list, export or page that it leads to holds it."""
    sign_in(ben).get(link)
    mark = link.rpartition("-")[2]
    assert len(mark) * 4 == 160
    assert mark not in json.dumps(everything(), default=str)
    browser = sign_in(owner)
    for path in (
        "/api/v1/actions",
        f"/api/v1/actions/{asked.pk}",
        "/api/v1/audit",
        "/api/v1/events",
        f"/actions/{asked.pk}",
    ):
        assert mark not in browser.get(path).content.decode()
    assert mark not in caplog.text


@contextmanager
def a_way(system: str) -> Iterator[Callable[[], str]]:
    """A connection `post` of this system; called, it tells what went over it last."""
    if system == "smtp":
        with a_mailbox() as box:
            yield lambda: box.taken[-1].message.get_content()
        return
    if system == TO_A_PERSON:
        fake = feishu.FakeFeishu()
        with Recorder(fake.answer) as far, override_settings(EGRESS_ALLOW=[f"127.0.0.1:{far.port}"]):
            sealed = crypto.seal({"app_secret": "app-secret-1", "encrypt_key": feishu.KEY})
            config = {"api_url": far.url, "app_id": feishu.APP}
            Connection.objects.create(slug="post", system="feishu", config=config, sealed_secrets=sealed)
            yield lambda: json.dumps(fake.last)
        return
    with Recorder(lambda *_: (200, {}, GOOD.get(system, {}))) as far:
        named = {"night": [f"json://127.0.0.1:{far.port}/night"]}
        secrets = crypto.seal({"token": "T", "webhook_url": f"{far.url}/hook", "channels": named})
        Connection.objects.create(slug="post", system=system, config={"api_url": far.url}, sealed_secrets=secrets)
        with override_settings(EGRESS_ALLOW=[f"127.0.0.1:{far.port}"]):
            yield lambda: unquote_plus([one for one in far.seen if "auth.test" not in one.path][-1].body.decode())


def linked(person: User, system: str) -> Channel:
    """The way of this person over the connection `post`."""
    channel = reach(person, "post", {"smtp": "ben@example.org", "notify": "night", **ADDRESS}.get(system, ""))
    if system == TO_A_PERSON:
        Channel.objects.filter(pk=channel.pk).update(address=feishu.BEN, identity=feishu.BEN)
    return Channel.objects.select_related("connection").get(pk=channel.pk)


def morning(channel: Channel, later: Callable[..., None]) -> None:
    mornings.tick()
    builders.action(tier="low", status="delivered", settled_at=clock.now())
    later(hours=24)
    mornings.tick()


OTHERS: dict[str, Callable[[Channel, Callable[..., None]], object]] = {  # of what the desk sends to its own people
    "code": lambda channel, _: channels.send_code(channel),
    "test": lambda channel, _: channels.try_out(channel),
    "morning": morning,
}


def test_every_way_is_walked():
    """One more system, or one more way over a system, is one more way here."""
    assert TO_ONE.keys() == {"feishu"}
    assert not TO_ONE.keys() - {system.partition(" ")[0] for system in WAYS}


@pytest.mark.parametrize("system", WAYS)
@pytest.mark.parametrize("what", OTHERS)
def test_what_else_the_desk_writes_to_its_people_only_opens_pages_too(system, what, ben, sign_in, later):
    pages = {f"{settings.BASE_URL}{path}" for path in ("/settings/notifications", "/done")}
    with a_way(system) as last:
        OTHERS[what](linked(ben, system), later)
        links_in_it = set(re.findall(rf"{re.escape(settings.BASE_URL)}/[\w/.?=&-]*", last()))
    assert links_in_it
    assert links_in_it <= pages
    browsers, before = [Client(), sign_in(ben)], everything()
    for link in links_in_it:
        for browser in browsers:
            look(browser, [f"/{link.split('/', 3)[3]}"] * len(READERS), READERS.values())
    assert differences(before, everything()) == {}


@pytest.mark.parametrize("system", WAYS)
@pytest.mark.parametrize("what", ["ask", "remind", "end"])
def test_every_way_to_a_person_carries_the_one_link_and_it_only_opens(system, what, asked, ben, owner, sign_in, later):
    with a_way(system) as last:
        linked(ben, system)
        telling.tick()
        if what == "remind":
            later(hours=13)  # of a day
            telling.tick()
        elif what == "end":
            say(asked, owner, "reject")
            telling.tick()
        notice = Notice.objects.order_by("pk").first()
        assert notice.status in ("sent", "updated"), notice.error
        assert what in ("ask", "end") or Notice.objects.filter(what=what, status="sent").exists()
        links_in_it = set(re.findall(rf"{re.escape(settings.BASE_URL)}/[\w/.?=&-]*", last()))
    assert links_in_it <= {one_builder.link_to(each) for each in Notice.objects.exclude(what="end")}
    assert links_in_it or what == "end"
    browsers, before = [Client(), sign_in(ben)], everything()
    for link in links_in_it:
        for browser in browsers:
            look(browser, [f"/{link.split('/', 3)[3]}"] * len(READERS), READERS.values())
    assert differences(before, everything()) == {}


def test_one_module_makes_the_links_of_messages():
    makes = [tree.named(path) for path in tree.modules() if "/go/" in path.read_text()]
    assert makes == ["approvals/links.py"]
