"""A page speaks the language of the person who reads it; whatever is kept or answers machines speaks English."""

import ast
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.template import Context, Template
from django.test import Client
from django.utils import translation

from approvals.kinds import KINDS
from approvals.models import Decision
from project.lib.language import phrase, spoken
from project.lib.text import span
from project.templatetags import desk
from tests import builders
from tests.house import tree
from triggers.models import Audit, Rhythm
from triggers.sources.schedule import parse_schedule
from triggers.views import audit_words

CODE = re.compile(r"<(pre|code|svg|script|kbd)\b.*?</\1>|<dl id=.words.*?</dl>|<[^>]*>", re.DOTALL)
SENTENCE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,} [a-z]{2,}")
CHINESE = {"HTTP_ACCEPT_LANGUAGE": "zh-CN,zh;q=0.9,en;q=0.8"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "language"),
    [("", "en"), ("de-AT,de;q=0.9", "en"), ("de, zh-TW;q=0.5", "zh-Hans"), ("zh-CN", "zh-Hans"), ("nonsense;;", "en")],
)
def test_a_stranger_reads_what_his_browser_asks_for(asked, language):
    answer = Client(HTTP_ACCEPT_LANGUAGE=asked).get("/sign-in")
    assert f'<html lang="{language}"' in answer.content.decode()
    assert answer["Content-Language"] == language.lower()
    assert "Accept-Language" in answer["Vary"]


@pytest.mark.django_db
def test_the_desk_has_a_language_for_whose_browser_says_nothing(settings):
    settings.PAGES_LANGUAGE = "zh-hans"
    assert '<html lang="zh-Hans"' in Client().get("/sign-in").content.decode()
    assert '<html lang="en"' in Client(HTTP_ACCEPT_LANGUAGE="en").get("/sign-in").content.decode()


def test_what_a_person_chose_wins_over_the_browser(ann, sign_in):
    browser = sign_in(ann)
    told = {"name": "Ann", "email": ann.email, "language": "zh-hans"}
    assert '<html lang="zh-Hans"' in browser.post("/settings", told, follow=True).content.decode()
    assert '<html lang="zh-Hans"' in browser.get("/settings", HTTP_ACCEPT_LANGUAGE="en").content.decode()
    browser.post("/settings", told | {"language": "en"})
    assert '<html lang="en"' in browser.get("/settings", **CHINESE).content.decode()


def test_a_language_the_desk_does_not_speak_is_not_chosen(ann, sign_in):
    answer = sign_in(ann).post("/settings", {"name": "Ann", "email": ann.email, "language": "klingon"})
    assert answer.status_code == 400
    ann.change(language="klingon")  # one that is gone
    assert '<html lang="en"' in sign_in(ann).get("/settings").content.decode()


def drawn(source, **facts):
    return Template(source).render(Context(facts))


def test_english_is_drawn_as_it_stands_and_another_language_moves_its_slots():
    source = "<p> {% say %}{{ good }} check{{ good|pluralize }}\n for{% endsay %} </p>"
    assert drawn(source, good=2) == "<p> 2 checks\n for </p>"
    with translation.override("zh-hans"):
        assert drawn(source, good=2) == "<p> 2 项支持 </p>"
        assert drawn("{% say %}by {{ handler }}{% endsay %}", handler="<b>") == "由 &lt;b&gt;"
        assert drawn("{% say %}nobody translated this{% endsay %}") == "nobody translated this"


def test_times_and_numbers_are_said_as_people_say_them_there():
    now = datetime(2027, 3, 1, 12, tzinfo=UTC)
    with translation.override("zh-hans"):
        assert desk.ago(now - timedelta(minutes=7), now) == "7 分钟前"
        assert desk.ago(now, now) == "刚刚"
        assert [desk.countdown(seconds) for seconds in (4980, 840, 371)] == ["1 小时 23 分", "14 分钟", "6:11"]
        assert [desk.took(seconds) for seconds in (0.021, 4.9, 452)] == ["21 毫秒", "4.9 秒", "7 分 32 秒"]
        assert span(3 * 3600) == "3 小时"
        assert desk.clock_words(now - timedelta(days=3), now) == "02月26日 12:00"
        assert "分钟</span>后<" in desk.coming({"now": now}, now + timedelta(minutes=14))
        assert ">低风险<" in desk.tier("low")
        assert ">等待人处理<" in desk.status("awaiting")
    assert desk.ago(now - timedelta(minutes=7), now) == "7 min ago"
    assert desk.coming({"now": now}, now + timedelta(hours=23, minutes=48)).endswith(
        '>in <span data-until="2027-03-02T11:48:00.000Z">23 h 48 min</span></time>'
    )
    assert ">11:00 UTC<" in desk.coming({"now": now}, now - timedelta(hours=1)), "what should have come already"
    assert desk.coming({"now": now}, None) == ""


def test_what_no_catalogue_has_stays_as_it_is():
    with translation.override("zh-hans"):
        assert [spoken(text) for text in ("", "  ", "acme/shop", " Home ")] == ["", "  ", "acme/shop", " 首页 "]
        assert phrase("{n} d ago", n=2) == "2 天前"


def test_the_card_is_worded_as_designed(ben, sign_in):
    """The words of the design, letter by letter."""
    ben.change(language="zh-hans")
    evidence = [{"text": "a test fails", "for": False}, {"text": "it is signed", "for": True}]
    action = builders.action(title="Merge acme/shop#8", tier="medium", reason="it is right", evidence=evidence)
    page = sign_in(ben).get(f"/actions/{action.pk}").content.decode()
    for words in (
        "中风险",
        "剩 <span",
        "取自实际载荷",
        "自述，未经核实",
        "无法判断影响范围。",
        "1 项支持",
        "1 项反对",
        "若有变动，本次批准无效。",
        "10 秒内可收回，之后不可撤销。",
        "拒绝 <kbd>r</kbd>",
        "若无人处理",
    ):
        assert words in page, words


def test_key_pages_hold_no_english_sentence(ben, owner, sign_in):
    owner.change(language="zh-hans")
    run = builders.run(status="waiting")
    action = builders.action(run=run, tier="medium", title="Merge", arguments={"repo": "a/b", "title": "T"})
    browser = sign_in(owner)
    pages = ["/", "/approvals", "/actions", "/events", "/runs", "/dead-letters", "/triggers", "/sources", "/settings"]
    for page in [*pages, f"/actions/{action.pk}", f"/runs/{run.pk}", f"/events/{run.event_id}", "/sign-in"]:
        answer = browser.get(page, follow=True)
        assert answer.status_code == 200, page
        assert SENTENCE.findall(CODE.sub("|", answer.content.decode())) == [], page


def test_what_our_own_code_says_of_an_action_is_translated_and_foreign_text_is_not(owner, sign_in):
    owner.change(language="zh-hans")
    merge = {"repo": "acme/shop", "number": 7, "sha": "a" * 40}
    kept = {"reversible": KINDS["github.merge"].reversible, "blast_radius": KINDS["github.merge"].blast_radius}
    action = builders.action("github.merge", tier="high", arguments=merge, **kept)
    page = sign_in(owner).get(f"/actions/{action.pk}").content.decode()
    for told in ("<dt>头部提交</dt>", "合并可以用另一个提交还原", "从该分支构建的所有人"):
        assert told in page, told
    pull = {"repo": "acme/shop", "base": "main", "title": "Home", "body": "", "files": []}
    asked = builders.action("github.create_pr", arguments=pull)
    assert "首页" not in text_between(sign_in(owner).get(f"/actions/{asked.pk}"), "批准后会发生什么")


def text_between(answer, heading: str) -> str:
    return answer.content.decode().partition(heading)[2].partition("</section>")[0]


def test_the_api_tells_an_action_in_english(owner, sign_in):
    owner.change(language="zh-hans")
    action = builders.action("github.merge", tier="high", arguments={"repo": "a/b", "number": 7, "sha": "a" * 40})
    told = sign_in(owner).get(f"/api/v1/actions/{action.pk}", **CHINESE).json()
    assert [line["label"] for line in told["preview"]] == ["Pull request", "Head", "Method"]


@pytest.mark.parametrize(
    ("schedule", "chinese"),
    [
        ({"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin"}, "在 09:00, 星期一 到 星期五"),
        ({"every": 2700}, "每 45 分钟"),
        ({"at": "2026-05-01T09:00", "timezone": "Asia/Shanghai"}, "一次，于 2026-05-01 09:00（Asia/Shanghai）"),
    ],
)
def test_a_schedule_is_read_aloud_in_the_language_of_the_page(schedule, chinese):
    with translation.override("zh-hans"):
        told = parse_schedule(schedule).words()
    assert chinese in told
    assert not SENTENCE.search(told)


def test_handlers_that_ship_say_what_they_do_in_chinese(owner, sign_in):
    owner.change(language="zh-hans")
    page = sign_in(owner).get("/handlers/triage-issue").content.decode()
    assert "按规则诊断新议题" in page


def test_the_audit_log_is_read_in_chinese_and_kept_in_english(owner, sign_in):
    owner.change(language="zh-hans")
    with transaction.atomic():
        Audit.write("run again", builders.run(), by=owner, reason="up again")
    page = sign_in(owner).get("/audit").content.decode()
    assert "<b>重新运行</b>" in page
    assert "理由: up again" in page
    assert "run again" in sign_in(owner).get("/audit?format=json").getvalue().decode()


def test_every_deed_that_is_written_down_has_its_words():
    """Those whose name is put together are listed by hand."""
    calls = [node for path in tree.modules() for node in ast.walk(tree.parsed(path)) if isinstance(node, ast.Call)]
    written = [call.args[0] for call in calls if ast.unparse(call.func) in ("Audit.write", "log") and call.args]
    assert len(written) > 40
    verbs = {one.value for call in written for one in ast.walk(call) if isinstance(one, ast.Constant)}
    assert {verb for verb in verbs if isinstance(verb, str) and not verb.endswith(" ")} - set(
        audit_words.VERBS
    ) == set()


def test_a_refused_click_is_said_in_the_language_of_whoever_clicked(ann, ben, sign_in):
    ben.change(language="zh-hans")
    action = builders.action(tier="medium")
    told = {"verdict": "approve", "digest": action.digest, "revision": action.revision}
    sign_in(ann).post(f"/actions/{action.pk}/decisions", told)
    page = sign_in(ben).post(f"/actions/{action.pk}/decisions", told).content.decode()
    assert re.search(r"ann 比你早 \d+ 秒处理，你的操作未生效。", page)


def test_what_is_kept_and_what_machines_read_is_english(ben, sign_in):
    ben.change(language="zh-hans")
    browser = sign_in(ben)
    action = builders.action(tier="medium")
    told = {"verdict": "reject", "digest": "another", "revision": action.revision, "reason": "no"}
    answer = browser.post(f"/api/v1/actions/{action.pk}/decisions", json.dumps(told), "application/json", **CHINESE)
    assert answer.json()["detail"].isascii()
    Rhythm.objects.create(source=builders.source(), every=240.0, usually=240.0)
    told_by_api = browser.get("/api/v1/sources/github", **CHINESE).json()
    assert "about every 4 min" in json.dumps(told_by_api)
    browser.post(f"/actions/{action.pk}/decisions", told | {"digest": action.digest})
    kept = [*Decision.objects.values_list("verdict", "reason"), *Audit.objects.values_list("verb", "detail")]
    assert kept
    assert json.dumps(kept, ensure_ascii=False).isascii()
