"""A Stripe small enough to read: a payment of 100.00 EUR, refunds by key, for `Recorder(FakeStripe().answer)`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from tests.recorder import Reply


@dataclass
class FakeStripe:
    currency: str = "eur"
    refunds: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Reply] = field(default_factory=dict)  # by idempotency key
    page: int = 100
    breaks: int = 0  # so many refunds fail inside, and the failure is stored under their key

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        where, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
        if (method, where) == ("GET", "/v1/charges/ch_1"):
            return 200, {}, self.charge()
        if (method, where) == ("GET", "/v1/payment_intents/pi_1"):  # only its charges say what was given back
            return 200, {}, {"id": "pi_1", "amount": 10_000, "currency": self.currency}
        if (method, where) == ("GET", "/v1/charges") and query["payment_intent"] == ["pi_1"]:
            return 200, {}, {"data": [self.charge()], "has_more": False}
        if (method, where) == ("GET", "/v1/refunds"):
            return self.list(query.get("starting_after", [""])[0])
        if (method, where) == ("POST", "/v1/refunds"):
            return self.once(headers["idempotency-key"], dict(parse_qsl(body.decode())))
        return 404, {}, {"error": {"code": "resource_missing", "message": "No such thing for secret@example.org"}}

    def charge(self) -> dict[str, Any]:
        given_back = sum(refund["amount"] for refund in self.refunds)
        return {"id": "ch_1", "amount": 10_000, "amount_refunded": given_back, "currency": self.currency}

    def once(self, key: str, form: dict[str, str]) -> Reply:
        """Stripe answers the same to the same key for a day, a stored 500 too, and says so."""
        if key in self.answers:
            status, headers, told = self.answers[key]
            return status, {**headers, "Idempotent-Replayed": "true"}, told
        if self.breaks:
            self.breaks -= 1
            self.answers[key] = 500, {}, {"error": {"type": "api_error"}}
        else:
            self.answers[key] = self.refund(form)
        return self.answers[key]

    def refund(self, form: dict[str, str]) -> Reply:
        made = {"id": f"re_{len(self.refunds) + 1}", "amount": int(form["amount"]), "currency": self.currency}
        made |= {"status": "succeeded", "metadata": {"nightdesk_key": form["metadata[nightdesk_key]"]}, "form": form}
        self.refunds.append(made)
        return 200, {}, made

    def list(self, after: str) -> Reply:
        newest = list(reversed(self.refunds))
        start = next((at + 1 for at, each in enumerate(newest) if each["id"] == after), 0)
        rows = newest[start : start + self.page]
        return 200, {}, {"data": rows, "has_more": len(newest) > start + self.page}
