"""Ask a Nightdesk before your agent does something, or let the desk do it. Copy this one file: Python 3.10 is enough.

    from nightdesk import Desk                                    # or however you named the copy

    desk = Desk("https://desk.example.org", token="nd_…")         # a token with the scope `propose`

    done = desk.act("email.send", {"to": [...], "subject": "…", "body": "…"}, key="welcome-4711", reason="New customer")
    print(done.result)                                            # the desk has sent it, after somebody's nod

    @desk.needs_nod(key="drop-{table}", reason="Nobody has read from it for a year")
    def drop(table):                                              # you do it, after somebody's nod: tier high
        ...

The key names the effect in your own words. After a crash ask again with the same key and the same arguments: you get
the same action, not a second one, and go on waiting. A key is free again after a day, once its action has ended. A
nod for what you do yourself is for one time: UsedUp.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import http.client
import inspect
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LOOK = 30  # seconds one request waits for people's decision; the desk allows 60
CALL = 20  # seconds the desk may take beyond that
GRACE = 5.0  # seconds an answer that is under way may come after the time you gave
PAUSE = 1.0  # seconds between two looks once it is decided
LONGEST_PAUSE = 30.0  # seconds between two tries of a call, while the desk cannot be reached
PATIENCE = 300.0  # seconds a call is tried again; every one may safely be sent twice
STALE = 300  # seconds a call-back may be old
AGAIN = (408, 429, 500, 502, 503, 504)
RUNNING = "running"  # the code of a refusal: the same request is under way
REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)  # there may be none of these
Given = Mapping[str, Any]  # arguments by name
HIDDEN = re.compile(r"hidden:[0-9a-f]{16}")  # what the desk shows in place of a credential


class NightdeskError(Exception):
    """Whatever goes wrong here. `action` is the action as the desk last told it, where there is one."""

    def __init__(self, message: str, action: Action | None = None) -> None:
        super().__init__(message)
        self.action = action


class Unreachable(NightdeskError):
    """The desk did not answer for as long as it was tried. Nothing is lost: ask again with the same key."""


class Refused(NightdeskError):
    """The desk does not take the request. `code` says why (docs/api.md), `field` which member is wrong."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.http = status  # of the answer
        self.code = str(problem.get("code", ""))
        self.field = str(problem.get("field", ""))
        self.problem = dict(problem)
        where = f" ({self.field})" if self.field else ""
        super().__init__(f"{status} {self.code}{where}: {problem.get('detail', '')}")


class NotYet(NightdeskError):
    """It has not ended within the time you gave. Ask again with the same key, now or after a restart."""


class Rejected(NightdeskError):
    """Somebody, or a rule, said no. The message says why: do something else, do not ask again for the same."""


class Expired(NightdeskError):
    """Nobody decided in time, or it could not be carried out in time. Nothing happened."""


class Cancelled(NightdeskError):
    """It was withdrawn. Nothing happened."""


class Failed(NightdeskError):
    """The far side refused for good, or nobody could find out whether it happened."""


class StillHidden(NightdeskError):
    """What people approved holds the desk's mark in place of a credential, and no credential of yours stood there."""


class UsedUp(NightdeskError):
    """Another call took up this nod before yours: one nod is for one time. Take another key, or resume."""


class Unfit(NightdeskError):
    """What people approved lacks an argument that your function needs, or has one that it does not take."""


class Forged(NightdeskError):
    """A call-back is not signed by the desk, or too old."""


ENDS = {"rejected": Rejected, "expired": Expired, "cancelled": Cancelled, "superseded": Cancelled, "failed": Failed}


class Action(dict[str, Any]):
    """An action as the desk tells it: a dict with every member of the API, and the most wanted as attributes."""

    @property
    def id(self) -> int:
        return int(self["id"])

    @property
    def status(self) -> str:
        return str(self["status"])

    @property
    def result(self) -> Any:
        """What the far side answered, or what people answered to a question."""
        return self.get("result")

    @property
    def arguments(self) -> dict[str, Any]:
        """As they were approved, which a reviewer may have mended. Credentials are shown as `hidden:…`."""
        return dict(self.get("arguments") or {})

    @property
    def has_ended(self) -> bool:
        return self.status == "delivered" or self.status in ENDS

    @property
    def why(self) -> str:
        """The last word of a person, else the desk's own reason."""
        said = [each for each in self.get("decisions") or [] if each.get("reason")]
        error = self.get("error") or {}
        return (
            (f"{said[-1]['by']}: {said[-1]['reason']}" if said else "")
            or str(error.get("message") or "")
            or str(self.get("cancel_reason") or "")
            or str(self.get("reason_code") or "").replace("_", " ")
        )


class Desk:
    """One desk, seen with one token. Its methods may be called from several threads."""

    def __init__(self, url: str, token: str, *, patience: float = PATIENCE) -> None:
        self.url = url.rstrip("/") + "/api/v1"
        self.token = token
        self.patience = patience

    def act(
        self, kind: str, arguments: Given, *, key: str, within: float | None = None, once: bool = False, **more: Any
    ) -> Action:
        """Ask for it and wait until it has ended; the action with its result, when it was done.

        `within` is how many seconds you wait (then NotYet). With `once`, for leave to do it yourself, the yes is taken
        up, and UsedUp raised when another call did before. As `ask`; also Rejected, Expired, Cancelled, Failed."""
        until = ends_at(within)
        asked = self.ask(kind, arguments, key=key, within=within, **more)
        done = self.wait(asked.id, within=None if until is None else max(0.0, until - time.monotonic()))
        return self.consume(done) if once else done

    def consume(self, action: Action) -> Action:
        """Take up the yes of an action that has ended well, before you do what it allows. Of several calls, whatever
        process they are in, the desk lets one through. Raises UsedUp in all others, Refused."""
        try:
            self.call("POST", f"/actions/{action.id}/consume", {"digest": action["digest"], "under": uuid.uuid4().hex})
        except Refused as refused:
            raise UsedUp(str(refused), action) if refused.code == "used_up" else refused from None
        return action

    def ask(
        self,
        kind: str,
        arguments: Given,
        *,
        key: str,
        connection: str | None = None,
        reason: str = "",
        evidence: Sequence[Any] = (),
        expires: float | None = None,
        callback_url: str | None = None,
        within: float | None = None,
    ) -> Action:
        """Ask for it and do not wait. `expires` is how many seconds people have; with `callback_url` the answer has a
        `callback_secret` for `verify`; `within` is how many seconds a desk that does not answer is tried, when that is
        less than `patience`. Raises Refused, Unreachable."""
        body: Any = {"kind": kind, "arguments": dict(arguments), "reason": reason, "evidence": list(evidence)}
        more = {"connection": connection, "expires": expires, "callback_url": callback_url}
        body |= {name: value for name, value in more.items() if value is not None}
        return Action(self.call("POST", "/actions", body, {"Idempotency-Key": key}, until=ends_at(within)))

    def get(self, id: int, *, wait: float = 0, until: float | None = None) -> Action:
        """The action as it is; with `wait`, once it waits for people no more, at the latest after so many seconds.
        `until` is when a desk that does not answer is given up, by `time.monotonic`."""
        return Action(self.call("GET", f"/actions/{id}?wait={wait:g}", slack=wait, until=until))

    def wait(self, id: int, *, within: float | None = None) -> Action:
        """Until it has ended, however long that takes and however often the desk restarts. Raises as `act`."""
        until = ends_at(within)
        while True:
            left = LOOK if until is None else max(0.0, until - time.monotonic())
            try:
                action = self.get(id, wait=min(LOOK, left), until=until)
            except (Unreachable, Refused) as error:
                if until is None or (isinstance(error, Refused) and error.http not in AGAIN):
                    raise
                raise NotYet(f"nobody can say what A-{id} is after {within:g} s: {error}") from error
            if action.has_ended:
                return ended(action)
            if until is not None and time.monotonic() >= until:
                raise NotYet(f"A-{id} is still {action.status} after {within:g} s", action)
            if action.status != "awaiting":
                time.sleep(PAUSE if until is None else min(PAUSE, left))

    def cancel(self, id: int, reason: str = "") -> Action:
        """Withdraw what you asked for, while it has not started."""
        return Action(self.call("POST", f"/actions/{id}/cancel", {"reason": reason}))

    def needs_nod(
        self, *, key: str, kind: str = "", reason: str = "", within: float | None = None, **more: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator: the function is called once people have said yes, with the arguments they said yes to and no
        others: what a reviewer took away has its default, or raises Unfit where there is none.

        `key` and `reason` may name arguments as in `str.format`. The kind is `external.<name of the function>`, which
        is tier high. Arguments must be JSON. One nod is one call, whoever waited for it: others raise UsedUp. After a
        crash between the nod and the end of the function `function.resume(…)` goes on under it."""

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            takes, called = inspect.signature(function), kind or f"external.{function.__name__}"

            def call(once: bool, /, *args: Any, **kwargs: Any) -> Any:
                bound = takes.bind(*args, **kwargs)
                bound.apply_defaults()
                given = dict(bound.arguments)
                words: dict[str, Any] = {"key": key.format(**given), "reason": reason.format(**given)}
                done = self.act(called, given, within=within, **words, **more)
                agreed = call_of(takes, revealed(done.arguments, given), done)
                with contextlib.nullcontext() if once else contextlib.suppress(UsedUp):
                    self.consume(done)
                return function(*agreed.args, **agreed.kwargs)

            @functools.wraps(function)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                return call(True, *args, **kwargs)

            vars(guarded)["resume"] = functools.partial(call, False)
            return guarded

        return wrap

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        slack: float = 0,
        until: float | None = None,
    ) -> dict[str, Any]:
        """One request, sent again while the desk cannot answer it, till `until` at most: Refused, Unreachable."""
        over, pause = time.monotonic() + self.patience, 1.0
        over = over if until is None else min(over, until)
        while True:
            most = CALL + slack if until is None else max(0.0, until - time.monotonic()) + GRACE
            try:
                return self.send(method, path, body, headers or {}, min(CALL + slack, most))
            except Refused as refused:
                rest = max(pause, float(refused.problem.get("retry_after") or 0))
                again = refused.http in AGAIN or refused.code == RUNNING
                if not again or time.monotonic() + rest > over:
                    raise
                time.sleep(rest)
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() + pause > over:
                    raise Unreachable(f"{self.url} does not answer: {error}") from error
                time.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str], timeout: float) -> dict[str, Any]:
        data, more = (None, {}) if body is None else (json.dumps(body).encode(), {"Content-Type": "application/json"})
        plain = {"Authorization": f"Bearer {self.token}", "Accept": "application/json", **headers, **more}
        if bad := [name for name, value in plain.items() if not (value.isascii() and value.isprintable())]:
            raise Refused(422, {"code": "bad_value", "field": bad[0], "detail": "a header is printable ASCII"})
        try:
            request = urllib.request.Request(self.url + path, data, plain, method=method)
            with OPENER.open(request, timeout=timeout) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            raise Refused(error.code, problem_of(error)) from None
        except ValueError as error:  # half an answer, or something between us and the desk that speaks no JSON
            raise OSError(f"no JSON came back ({error})") from None


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the desk and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


OPENER = urllib.request.build_opener(NoRedirect)


def problem_of(error: urllib.error.HTTPError) -> dict[str, Any]:
    """What the desk says of a refusal; a proxy may say something else, or nothing."""
    with error:
        try:
            told = json.loads(error.read())
        except (ValueError, OSError):
            told = None
    return told if isinstance(told, dict) else {"detail": error.reason}


def ends_at(within: float | None) -> float | None:
    """When so many seconds are over."""
    return None if within is None else time.monotonic() + within


def ended(action: Action) -> Action:
    if error := ENDS.get(action.status):
        raise error(f"A-{action.id} “{action.get('title', '')}” was {action.status}. {action.why}".strip(), action)
    return action


def call_of(takes: inspect.Signature, approved: Given, action: Action) -> inspect.BoundArguments:
    """The call that people said yes to: made of the approved arguments and nothing else. Raises Unfit."""
    free = {name for name, one in takes.parameters.items() if one.default is not one.empty or one.kind in REST}
    if wrong := sorted(takes.parameters.keys() - free - approved.keys() | approved.keys() - takes.parameters.keys()):
        raise Unfit(f"A-{action.id}: the function does not take what was approved: {', '.join(wrong)}", action)
    call = takes.bind_partial()
    call.arguments.update(approved)
    call.apply_defaults()
    return call


def revealed(shown: Any, given: Any) -> Any:
    """What was approved, with your own credentials back in the places where the desk hid them. Raises StillHidden."""
    if isinstance(shown, dict):
        members = given if isinstance(given, dict) else {}
        return {name: revealed(value, members.get(name)) for name, value in shown.items()}
    if isinstance(shown, list):
        members = dict(enumerate(given)) if isinstance(given, (list, tuple)) else {}
        return [revealed(value, members.get(at)) for at, value in enumerate(shown)]
    if not isinstance(shown, str) or shown == given or not HIDDEN.search(shown):
        return shown
    own = given if isinstance(given, str) else ""
    whole = own if HIDDEN.fullmatch(shown) else unveiled(shown, own)
    if not whole or (whole != own and HIDDEN.search(whole)):
        raise StillHidden(f"nothing of yours stands for the hidden part of {shown!r}")
    return whole


def unveiled(shown: str, given: str) -> str:
    """An address with the parameters that the desk hid, where it leads to the same host as the one that you gave."""
    try:
        there, mine = urllib.parse.urlsplit(shown), urllib.parse.urlsplit(given)
    except ValueError:
        return shown
    if (there.scheme, there.netloc.lower()) != (mine.scheme, mine.netloc.lower()):
        return shown
    pairs, own = (urllib.parse.parse_qsl(each.query, keep_blank_values=True) for each in (there, mine))
    masked = [one if HIDDEN.fullmatch(one[1]) else other for one, other in zip(pairs, own, strict=False)]
    same = [name for name, _ in pairs] == [name for name, _ in own] and masked == pairs
    if same and there._replace(query=mine.query) == mine:
        return given  # letter for letter
    for at, (name, value) in enumerate(pairs):
        values = {value for called, value in own if called == name}
        if HIDDEN.fullmatch(value) and len(values) == 1:
            pairs[at] = (name, values.pop())
    return urllib.parse.urlunsplit(there._replace(query=urllib.parse.urlencode(pairs, safe=":")))


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> dict[str, Any]:
    """The call-back that `body` is, when the desk signed it (Standard Webhooks); `secret` is the `callback_secret`.

    It may come twice under one `webhook-id`. Believe nothing more of it than that this action has ended: read it with
    your token. Raises Forged."""
    sent = {name.lower(): value for name, value in headers.items()}
    id, at = sent.get("webhook-id", ""), sent.get("webhook-timestamp", "")
    is_time = at.isascii() and at.isdigit() and len(at) < 20
    if not is_time or abs((time.time() if now is None else now) - int(at)) > STALE:
        raise Forged("the call-back is too old, or says no time")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    wanted = base64.b64encode(hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()).decode()
    given = [each.partition(",")[2] for each in sent.get("webhook-signature", "").split() if each.startswith("v1,")]
    if not any(hmac.compare_digest(wanted.encode(), each.encode()) for each in given):
        raise Forged("the call-back is not signed with this secret")
    return dict(json.loads(body))
