"""An authenticator app: who enrolled one proves by its codes who sits there; each code is good once, also in a race."""

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django_otp.oath import TOTP

from approvals.models import Action
from project.lib import clock
from project.people import doors
from project.people.models import Authenticator, RecoveryCode, User
from tests import builders
from tests.conftest import PASSWORD
from triggers.models import Audit

pytestmark = pytest.mark.django_db
PAGE = "/settings/authenticator"
RECOVERY = re.compile(r"\b(?:[a-z2-7]{4}-){3}[a-z2-7]{4}\b")


@pytest.fixture(autouse=True)
def _a_step_has_just_begun(later: Callable[..., None]) -> None:
    """Else the code before the one of now may be two steps old when it comes."""
    later(seconds=30 - clock.now().timestamp() % 30)


def code_of(user: User, *, ahead: int = 0) -> str:
    """What the app of `user` shows now, or so many steps of thirty seconds later."""
    app = TOTP(base64.b32decode(Authenticator.objects.get(user=user).key))
    app.time = clock.now().timestamp() + 30 * ahead
    return f"{app.token():06}"


def step_up(client: Client, **proof: str) -> int:
    return client.post("/step-up", {**proof, "next": "/"}).status_code


def enrol(client: Client, user: User) -> list[str]:
    """By the page, as a person does it; returns the recovery codes."""
    step_up(client, password=PASSWORD)
    assert client.post(PAGE, {"do": "begin"}).status_code == 302
    page = client.get(PAGE).content.decode()
    assert Authenticator.objects.get(user=user).key in page
    assert '<svg class="qr"' in page
    answer = client.post(PAGE, {"do": "confirm", "code": code_of(user, ahead=-1)})
    assert answer.status_code == 201
    return RECOVERY.findall(answer.content.decode())


@pytest.fixture
def phone(ann: User, sign_in: Any) -> tuple[Client, list[str]]:
    """Ann's browser after she enrolled an app, and her recovery codes; her fresh sign-in is used up."""
    client = sign_in(ann)
    codes = enrol(client, ann)
    assert doors.use_up(client.get("/").wsgi_request)
    return client, codes


def is_fresh(client: Client) -> bool:
    return doors.is_fresh(client.get("/").wsgi_request)


def test_who_enrolled_an_app_proves_it_by_its_code_and_no_more_by_the_password(
    phone: tuple[Client, list[str]], ann: User
) -> None:
    client, _ = phone
    assert 'name="code"' in client.get("/step-up").content.decode()
    assert step_up(client, password=PASSWORD) == 400
    assert not is_fresh(client)
    assert step_up(client, code=code_of(ann)) == 302
    assert is_fresh(client)


def test_a_code_is_taken_once_also_in_another_browser(phone: tuple[Client, list[str]], ann: User, sign_in: Any) -> None:
    client, _ = phone
    code = code_of(ann)
    assert [step_up(client, code=code), step_up(client, code=code), step_up(sign_in(ann), code=code)] == [302, 400, 400]


def test_an_older_code_is_taken_no_more_after_a_newer_one(phone: tuple[Client, list[str]], ann: User) -> None:
    client, _ = phone
    assert step_up(client, code=code_of(ann, ahead=1)) == 302
    assert step_up(client, code=code_of(ann)) == 400


@pytest.mark.parametrize("steps", [-3, -2, 2, 3])
def test_a_code_of_another_minute_is_none(steps: int, phone: tuple[Client, list[str]], ann: User) -> None:
    assert step_up(phone[0], code=code_of(ann, ahead=steps)) == 400


@pytest.mark.parametrize("typed", ["", "12345", "1234567", "٠٠٠٠٠٠", "abcdef", "000000\x00", "-00001"])
def test_what_is_no_code_is_refused(typed: str, phone: tuple[Client, list[str]]) -> None:
    assert step_up(phone[0], code=typed) == 400


def test_a_code_of_somebody_else_opens_nothing(
    phone: tuple[Client, list[str]], ann: User, ben: User, sign_in: Any
) -> None:
    his = sign_in(ben)
    assert step_up(his, code=code_of(ann)) == 400
    assert step_up(his, password=PASSWORD) == 302, "he enrolled none"


def test_a_recovery_code_is_good_once_however_it_is_typed(phone: tuple[Client, list[str]], ann: User) -> None:
    client, codes = phone
    assert len(set(codes)) == 10
    assert step_up(client, code=codes[0].upper().replace("-", " ")) == 302
    assert step_up(client, code=codes[0]) == 400
    assert RecoveryCode.objects.count() == 9
    assert Audit.objects.get(verb="use a recovery code").by == ann


def test_new_recovery_codes_take_the_place_of_the_old_and_all_are_shown_once(
    phone: tuple[Client, list[str]], ann: User
) -> None:
    client, old = phone
    step_up(client, code=code_of(ann))
    new = RECOVERY.findall(client.post(PAGE, {"do": "renew"}).content.decode())
    assert len(new) == 10
    assert not set(new) & set(old)
    assert not RECOVERY.findall(client.get(PAGE).content.decode())
    assert step_up(client, code=old[1]) == 400
    assert step_up(client, code=new[1]) == 302


def test_nothing_is_changed_without_a_fresh_sign_in_and_nobody_sees_the_secret(ann: User, sign_in: Any) -> None:
    client = sign_in(ann)
    step_up(client, password=PASSWORD)
    client.post(PAGE, {"do": "begin"})
    key = Authenticator.objects.get().key
    other = sign_in(ann)
    assert key not in other.get(PAGE).content.decode()
    for deed in ("begin", "confirm", "renew", "remove"):
        assert other.post(PAGE, {"do": deed, "code": code_of(ann)}).url.startswith("/step-up")
    assert Authenticator.objects.get().confirmed_at is None
    assert key not in Authenticator.objects.get().sealed_key


def test_an_app_that_was_never_confirmed_counts_for_nothing(ann: User, sign_in: Any) -> None:
    client = sign_in(ann)
    step_up(client, password=PASSWORD)
    client.post(PAGE, {"do": "begin"})
    assert client.post(PAGE, {"do": "confirm", "code": "000000"}).status_code == 400
    assert step_up(client, password=PASSWORD) == 302


def test_an_app_that_was_removed_is_asked_no_more_and_the_log_says_so(
    phone: tuple[Client, list[str]], ann: User
) -> None:
    client, _ = phone
    step_up(client, code=code_of(ann))
    assert client.post(PAGE, {"do": "remove"}).status_code == 302
    assert not RecoveryCode.objects.exists()
    assert step_up(client, password=PASSWORD) == 302
    verbs = list(Audit.objects.filter(kind="user").order_by("pk").values_list("verb", flat=True))
    assert verbs == ["enrol an authenticator", "remove the authenticator"]


def test_guesses_are_throttled_like_passwords(phone: tuple[Client, list[str]], ann: User) -> None:
    client, _ = phone
    wrong = f"{(int(code_of(ann)) + 5) % 1_000_000:06}"
    assert [step_up(client, code=wrong) for _ in range(10)] == [400] * 9 + [429]
    assert step_up(client, code=code_of(ann)) == 429


def test_the_sign_in_page_takes_no_code_in_place_of_the_password(phone: tuple[Client, list[str]], ann: User) -> None:
    browser = Client()
    given = {"username": "ann", "code": code_of(ann)}
    assert browser.post("/sign-in", given).status_code == 400
    assert browser.post("/sign-in", {**given, "password": "wrong"}).status_code == 400
    assert "_auth_user_id" not in browser.session


def test_one_code_serves_one_decision_on_high(phone: tuple[Client, list[str]], ann: User, ben: User) -> None:
    client, _ = phone
    actions = [builders.action("stripe.refund", by=ben, tier="high", four_eyes=True) for _ in range(2)]
    assert step_up(client, code=code_of(ann)) == 302
    answers = [decide(client, action) for action in actions]
    assert [answer.status_code for answer in answers] == [302, 302]
    assert answers[1].url.startswith("/step-up"), "the second needs a code of its own"
    assert [Action.objects.get(pk=action.pk).status for action in actions] == ["approved", "awaiting"]


def decide(client: Client, action: Action) -> Any:
    seen = {"verdict": "approve", "digest": action.digest, "revision": 1, "reason": "looked at it"}
    return client.post(f"/actions/{action.pk}/decisions", seen)


def test_the_api_asks_for_the_code_too(phone: tuple[Client, list[str]], ann: User, ben: User, sign_in: Any) -> None:
    def api(client: Client, **proof: str) -> tuple[int, str]:
        answer = client.post("/api/v1/step-up", proof, content_type="application/json")
        return answer.status_code, "" if answer.status_code == 204 else answer.json()["code"]

    client, _ = phone
    assert api(client, password=PASSWORD) == (422, "not_valid")
    assert api(client, code="000000") == (403, "not_confirmed")
    assert api(client, code=code_of(ann)) == (204, "")
    assert api(sign_in(ben), code="123456") == (422, "not_valid")
    assert api(sign_in(ben), password="wrong") == (403, "not_confirmed")
