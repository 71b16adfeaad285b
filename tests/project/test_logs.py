"""Log lines: one a record, with what it is about, without secrets, bounded, and nobody writes his own into them."""

import json
import logging
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

from approvals.act import act
from approvals.errors import Refused
from project.lib import logs
from project.lib.redaction import Redactor
from tests import builders
from tests.handlers import registered, work
from tests.house.tree import ROOT
from tests.nodding import handling, serving
from triggers.durable import Durable

KNOWN = "a-known-secret-value"
TOKEN = "nd_" + "Zm9vYmFyYmF6cXV4" * 2


def record(message: str, *args: Any, level: int = logging.WARNING, exc_info: Any = None, **extra: Any):
    made = logging.getLogger("nightdesk.test").makeRecord(
        "nightdesk.test", level, __file__, 1, message, args, exc_info, extra=extra
    )
    return made


def lines(form: str = "json", process: str = "web") -> logging.Formatter:
    return logs.formatter(form=form, process=process, secrets=(KNOWN,))


def said(message: str, *args: Any, **more: Any) -> dict[str, Any]:
    line = lines().format(record(message, *args, **more))
    assert "\n" not in line
    return json.loads(line)


def failure(error: Exception) -> Any:
    try:
        raise error
    except Exception as raised:
        return (type(raised), raised, raised.__traceback__)


def test_a_record_is_one_json_object_that_says_who_speaks_and_what_it_is_about():
    with logs.about(run=7, event_id=5):
        line = said("Ran for %d s", 3, extra_fact="x")
    assert line["event"] == "Ran for 3 s"
    assert (line["process"], line["level"], line["logger"]) == ("web", "warning", "nightdesk.test")
    assert (line["run"], line["event_id"], line["extra_fact"]) == (7, 5, "x")
    assert line["timestamp"].endswith("Z")
    assert "run" not in said("afterwards")


@pytest.mark.parametrize(
    "text",
    [
        f"the value {KNOWN} by itself",
        f"token {TOKEN} was used",
        f"Authorization: Bearer {TOKEN}",
        "Authorization: Basic aGlkZGVuLXBhc3N3b3Jk",
        "{'authorization': 'Digest hidden-response'}",
        "[(b'authorization', b'Bearer hidden-thing')]",
        "Cookie: sessionid=hidden; csrftoken=hidden",
        "set-cookie: sessionid=hidden; Path=/",
        "x-hub-signature-256: sha256=hidden",
        f"computed sha256={'ab' * 32}",
        f"v1,{'hidden' * 6}+/aGVsbG8=",
        "postgres://desk:hidden@db.example.org/desk",
        "redis://:hidden@cache.example.org:6379/0",
        "https://hidden@example.org/path",
        "https://example.org/hook?token=hidden&x=1",
        "https://example.org/hook?x=1&api_key=hidden",
        "password=hidden",
        '{"client_secret": "hidden and more", "x": 1}',
        "{'api-key': 'hidden'}",
        "GITHUB_TOKEN=hidden",
        "ghp_hiddenhiddenhiddenhiddenhidden123456",
        "xoxb-hidden-hidden-hiddenhidden",
        "xoxc-hidden-hidden-hiddenhidden",
        "glpat-hiddenhiddenhidden",
        "https://hooks.slack.com/services/Thidden/Bhidden/hidden",
        "POST https://open.feishu.cn/open-apis/bot/v2/hook/hidden-hidden failed",
        "https://open.larksuite.com/open-apis/bot/v2/hook/hidden-hidden",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=hidden-hidden",
        "https://example.org/hook?x=1&amp;key=hidden",
        "https://discord.com/api/webhooks/12/hidden",
        "tgram://12:hidden/hidden/",
        "slack://hidden/hidden/hidden/#night",
        r"{\"password\": \"hidden\", \"x\": 1}",
        r"{\"password\": \"a\\\"hidden\", \"x\": 1}",
        r"{\\\"password\\\": \\\"hidden\\\"}",
        "{'password': b'hidden'}",
        r'password="a \"hidden\" thing"',
        'password="hidden and cut',
        "secrets: ['hidden', 'hidden']",
        "secrets=('a', b'hidden')",
        '{"token": {"value": "hidden"}}',
        '{"secrets": {"one": ["]}hidden", "hidden"], "two": {"three": "hidden"}}}',
        "('x-gitlab-token','hidden')",
        "[(b'x-gitlab-token', b'hidden')]",
        "pwd=hidden",
        "DB_PWD: hidden",
        "eyJhbGciOiJIUzI1NiJ9hidden.eyJzdWIiOiJ4In0hidden.c2lnbmF0dXJlhidden",
        "-----BEGIN RSA PRIVATE KEY-----\nhidden\nhidden\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_no_secret_reaches_a_line_by_words_by_facts_or_by_a_traceback(text):
    for shown in (
        said(text),
        said("%s", text),
        said("with facts", fact={"deep": [text]}),
        said("failed", exc_info=failure(ValueError(text))),
        {"console": lines("console").format(record("failed", exc_info=failure(ValueError(text))))},
    ):
        told = json.dumps(shown)
        assert "hidden" not in told.lower().replace("test_no_secret", "")
        assert KNOWN not in told
        assert TOKEN not in told


@pytest.mark.parametrize(
    "name", ["password", "Authorization", "cookie", "webhook_secret", "x-hub-signature-256", "api_key"]
)
def test_a_fact_under_the_name_of_a_secret_goes_whole(name):
    assert said("x", facts={name: "whatever it is"})["facts"] == {name: "***"}


@pytest.mark.parametrize(
    "text",
    [
        "Refused a delivery: not_authentic",
        "the signature does not fit",
        "3 tokens were revoked",
        "https://example.org/path?page=2#top",
        "R-5 triage-issue failed: KeyError; attempt 2 follows",
        "mail to ann@example.org",
        "GET https://example.org/a?monkey=1&page=2 said no, as s3://shelf/night did",
        "R-5 waits (token) for [secret] things",
        "hooks.slack.com did not answer",
    ],
)
def test_ordinary_words_stay(text):
    assert said(text)["event"] == text


def test_who_puts_an_end_of_line_into_a_value_writes_no_line_of_his_own():
    forged = "x\n2026-11-29 error everything is fine\r\x1b[2J\u2028\u202e"
    for form in ("json", "console"):
        line = lines(form).format(record("got %s", forged, fact=forged))
        assert not {"\n", "\r", "\x1b[2J", "\u2028", "\u202e"} & set(line)
        assert "\x1b[2J" not in line
    assert said("got %s", forged)["event"].startswith("got x\\n2026")


def test_at_a_terminal_a_traceback_stands_indented_so_that_none_of_it_passes_for_a_record():
    line = lines("console").format(record("failed", exc_info=failure(ValueError("x\nerror   forged"))))
    first, *rest = line.split("\n")
    assert "failed" in first
    assert rest
    assert all(part.startswith("    ") for part in rest)


def test_a_value_without_end_is_cut():
    line = said("%s", "é" * 100_000, fact="y" * 100_000, many=list(range(1000)))
    assert len(line["event"]) < 5000
    assert len(line["fact"]) < 5000
    assert len(line["many"]) <= 50
    trace = said("failed", exc_info=failure(ValueError("z" * 100_000)))["exception"]
    assert len(trace) <= 20_000


def test_what_is_no_json_is_told_as_text():
    assert said("x", fact=ValueError("why"), other={1: {2}})["fact"] == "why"


@pytest.mark.parametrize(
    "text",
    [
        *("a-" * 20_000, "sha256=" * 3000, "eyJa" * 5000, "a" * 40_000, "://" * 9000, "token " * 5000, "(" * 40_000),
        *("token=[" * 5000, 'token="\\' * 4000, 'token=\\"' * 4000, "['token'," * 4000, "a://" * 9000),
        *(f"token={tail}" for tail in ("\\" * 40_000, "{[" * 20_000, "[" + "'" * 30_000, " " * 40_000)),
    ],
)
def test_a_hostile_text_costs_no_time(text):
    began = time.monotonic()
    Redactor().text(text[:40_000])
    assert time.monotonic() - began < 5  # a bound on liveness: it takes some milliseconds


class Kept(logging.Handler):
    """What would have been written, as JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(lines(process="worker"))
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    root = logging.getLogger()
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


@pytest.mark.django_db(transaction=True)
def test_whatever_is_logged_while_a_run_works_names_the_run_and_its_event(kept):
    def story(run: Durable) -> None:
        run.step("look", logging.getLogger("a.library").warning, "far away", timeout=10)
        raise ValueError(f"bad {KNOWN}")

    with registered("story", story):
        run = builders.run("story", attempt=4)
        work()
    far, gave_up = (next(line for line in kept.lines if words in line["event"]) for words in ("far away", "gave up"))
    for line in (far, gave_up):
        assert (line["run"], line["event_id"]) == (run.pk, run.event_id)
    assert "ValueError" in gave_up["exception"]
    assert KNOWN not in json.dumps(gave_up)


@pytest.mark.django_db(transaction=True)
def test_a_delivery_that_fails_is_told_with_its_action(kept):
    builders.connection("shop", practice=False)
    with serving("low") as shop, handling(lambda run: act(run, "buy", kind="shop.order")):
        shop.faults = [Refused("no tea")]
        run = builders.run("story")
        work()
    line = next(line for line in kept.lines if line["logger"] == "nightdesk.delivery")
    assert (line["run"], line["event_id"]) == (run.pk, run.event_id)
    assert line["event"] == f"A-{line['action']} try 1: failed, Refused"


SERVERS = """
import logging, uvicorn
uvicorn.Config("project.asgi:application", log_level="warning").load()
logging.getLogger("uvicorn.error").warning("from the server, with %s", "nd_0123456789abcdef")
from project.celery import app
app.log.setup("WARNING", redirect_stdouts=True)
logging.getLogger("celery.worker").warning("from the worker, with redis://:nope@there/0")
print("a handler prints")
"""


def test_server_worker_and_what_handlers_print_speak_in_the_same_lines(tmp_path):
    env = os.environ | {"DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings", "LOG_FORMAT": "json"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SERVERS)],
        cwd=ROOT,
        env=env | {"NIGHTDESK_PROCESS": "worker"},
        capture_output=True,
        text=True,
        check=True,
    )
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert {line["process"] for line in told} == {"worker"}
    assert [line["event"] for line in told if line["logger"] != "py.warnings"] == [
        "from the server, with nd_***",
        "from the worker, with redis://***@there/0",
        "a handler prints",
    ]
    assert done.stdout == ""
