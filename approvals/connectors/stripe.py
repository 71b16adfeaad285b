"""`stripe.refund`: money back to whoever paid, by Stripe's API, with the action's key as `Idempotency-Key`.

Stripe keeps a key for a day and answers the same to it, a stored failure too; so the refund also carries the key in its
metadata, and is looked for before anything is sent again (https://docs.stripe.com/api/idempotent_requests).
"""

import hashlib
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import quote, urlencode

from pydantic import Field

from approvals.connectors.answers import attempt, judge, object_of
from approvals.connectors.http import header_safe
from approvals.errors import OutcomeUnknown, Refused
from approvals.kinds import Arguments, Far, Kind, Now, Result, facts, register
from approvals.tiers import Tier
from project.lib import canonical
from project.lib.egress import Answer, Garbled, Session
from project.lib.language import spoken

API = "https://api.stripe.com"
LONGEST_KEY = 255  # characters
PAGE = 100
PAGES = 20  # a payment with more refunds is left to a person
WHOLE = ("bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf")
THOUSANDTHS = ("bhd", "jod", "kwd", "omr", "tnd")  # those before have no smaller unit at all
MARK = "nightdesk_key"


class Refund(Arguments):
    """`amount` in the smallest unit of `currency` (cents), as Stripe counts; `payment` is a charge or an intent."""

    payment: str = Field(pattern=r"^(ch|py|pi)_[A-Za-z0-9_]{1,200}$")
    amount: int = Field(gt=0, le=99_999_999, strict=True)
    currency: str = Field(pattern=r"^[a-z]{3}$")
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"] | None = None

    @property
    def is_intent(self) -> bool:
        return self.payment.startswith("pi_")


class Stripe:
    """The few calls we need."""

    def __init__(self, far: Far, http: Session) -> None:
        self.http = http
        self.base = str(far.config.get("api_url") or API).rstrip("/")
        self.headers = {"authorization": f"Bearer {far.secrets.get('key', '')}"}

    def get(self, path: str, **params: str | int) -> dict[str, Any]:
        url = f"{self.base}/v1/{path}"
        answer = attempt(lambda: self.http.call("GET", url, headers=self.headers, params=params or None), harmless=True)
        return object_of(judge(answer, harmless=True, note=said_by(answer)), harmless=True)

    def post(self, path: str, form: dict[str, str], key: str) -> dict[str, Any]:
        headers = {**self.headers, "Idempotency-Key": key, "content-type": "application/x-www-form-urlencoded"}
        url, content = f"{self.base}/v1/{path}", urlencode(form)
        answer = attempt(lambda: self.http.call("POST", url, headers=headers, content=content))
        return object_of(judge(answer, note=said_by(answer)))


def said_by(answer: Answer) -> str:
    """Stripe's code for a refusal; its sentences may name customers."""
    if answer.status < 400:
        return ""
    try:
        said = answer.json()
    except Garbled:
        return ""
    error = said.get("error") if isinstance(said, dict) else None
    return str(error.get("code") or error.get("type") or "")[:100] if isinstance(error, dict) else ""


def key_sent(key: str) -> str:
    """A key as Stripe takes it; one that is too long goes by its hash."""
    safe = header_safe(key)
    return safe if len(safe) <= LONGEST_KEY else "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def deliver(far: Far, wish: Refund, key: str) -> Result:
    with Session(far.timeout) as http:
        stripe = Stripe(far, http)
        paid = stripe.get(payment_of(wish)).get("currency")
        if paid != wish.currency:
            raise Refused(f"the payment was made in {str(paid)[:3]}, not in {wish.currency}: people saw another amount")
        form = {"payment_intent" if wish.is_intent else "charge": wish.payment, "amount": str(wish.amount)}
        form |= {f"metadata[{MARK}]": key_sent(key)} | ({"reason": wish.reason} if wish.reason else {})
        return result_of(stripe.post("refunds", form, key_sent(key)))


def payment_of(wish: Refund) -> str:
    return f"{'payment_intents' if wish.is_intent else 'charges'}/{quote(wish.payment)}"


def payment_now(far: Far, wish: Refund) -> Now:
    """What was paid, and given back already: another refund meanwhile makes this one another question."""
    with Session(far.timeout) as http:
        stripe = Stripe(far, http)
        found = stripe.get(payment_of(wish)) | (of_charges(stripe, wish) if wish.is_intent else {})
    names = ("amount", "amount_received", "amount_refunded", "currency", "status", "refunded", "disputed")
    told = {name: found[name] for name in names if found.get(name) is not None}
    return Now(wish.payment, canonical.digest(told), told)


def of_charges(stripe: Stripe, wish: Refund) -> dict[str, Any]:
    """What was given back and disputed of an intent: only its charges say so."""
    charges = stripe.get("charges", payment_intent=wish.payment, limit=PAGE).get("data") or []
    given_back = sum(charge.get("amount_refunded") or 0 for charge in charges)
    return {"amount_refunded": given_back, "disputed": any(charge.get("disputed") for charge in charges)}


def find(far: Far, wish: Refund, keys: list[str]) -> Result | None:
    """A refund of this payment that carries one of our keys."""
    wanted = {key_sent(key) for key in keys}
    about: dict[str, str | int] = {"payment_intent" if wish.is_intent else "charge": wish.payment, "limit": PAGE}
    with Session(far.timeout) as http:
        stripe = Stripe(far, http)
        for _ in range(PAGES):
            page = stripe.get("refunds", **about)
            items = page.get("data") or []
            found = next((item for item in items if (item.get("metadata") or {}).get(MARK) in wanted), None)
            if found:
                return result_of(found)
            if not page.get("has_more") or not items:
                return None
            about["starting_after"] = str(items[-1].get("id"))
    raise OutcomeUnknown("the payment has too many refunds to be searched")


def result_of(refund: dict[str, Any]) -> Result:
    return {name: refund.get(name) for name in ("id", "amount", "currency", "status")}


def money(wish: Refund) -> str:
    """`48.20 EUR`, `4820 JPY`: the amount as people read it."""
    places = 0 if wish.currency in WHOLE else 3 if wish.currency in THOUSANDTHS else 2
    return f"{Decimal(wish.amount).scaleb(-places):,.{places}f} {wish.currency.upper()}"


def preview(wish: Refund) -> list[dict[str, str]]:
    rows = [
        (spoken("Amount"), money(wish)),
        (spoken("Of payment"), wish.payment),
        (spoken("Reason"), (wish.reason or "").replace("_", " ")),
    ]
    return facts(rows)


STRIPE_REFUND = register(
    Kind(
        name="stripe.refund",
        system="stripe",
        tier=Tier.HIGH,
        safety="keyed",
        arguments=Refund,
        deliver=deliver,
        probe=find,
        title=lambda wish: f"Refund {money(wish)} of {wish.payment}",
        preview=preview,
        current=payment_now,
        pretend=lambda wish, number: {
            **{"id": f"re_practice_{number}", "amount": wish.amount, "currency": wish.currency, "status": "succeeded"}
        },
        reversible="A refund cannot be taken back; the customer would have to pay again.",
        blast_radius="the customer, and your balance",
    )
)
