"""`order-created`: check a new order by rules, tell the shop's chat, and propose the confirmation to the customer."""

from decimal import Decimal, InvalidOperation
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from approvals.act import Expired, NoConnection, Rejected, act
from approvals.connectors.mail import bare
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.registry import handler

MOST_LINES = 20  # of an order that a mail repeats


class Config(BaseModel):
    """`look_over`: an order of at least this much is worth a second look. `confirm`: write to the customer at all?"""

    model_config = ConfigDict(extra="forbid")

    look_over: Decimal = Field(default=Decimal(500), ge=0)
    confirm: bool = True
    shop: str = Field(default="our shop", max_length=100)


@handler("order-created", version="1", config=Config)
def order_created(run: Durable) -> dict[str, Any]:
    """Tell the chat of a new order, and mail its customer once a person has nodded."""
    order = run.step("read the order", read_order, run.event.data)
    doubts = run.step("check it", check, order, str(run.config.look_over))
    run.log(f"checked by rules: {'; '.join(doubts) or 'nothing to object to'}")
    try:
        act(run, "tell the chat", kind="slack.post", key=f"order-{order['id']}-told", text=line_of(order, doubts))
    except NoConnection as missing:
        run.log(f"the chat was not told: {missing}")
    return {"outcome": confirmation(run, order, doubts), "doubts": doubts, **order}


def confirmation(run: Durable, order: dict[str, Any], doubts: list[str]) -> str:
    """What became of the mail to the customer."""
    if not run.config.confirm or order["is_test"] or not order["email"]:
        run.log("the customer is not written to")
        return "not_confirmed"
    try:
        act(
            run,
            "confirm to the customer",
            kind="email.send",
            key=f"order-{order['id']}-confirmation",
            reason="The customer waits for a word.",
            evidence=[{"text": doubt, "for": False} for doubt in doubts],
            to=[order["email"]],
            subject=f"Your order {order['name']}",
            body=mail(order, run.config.shop),
        )
    except (Rejected, Expired, NoConnection) as no:
        run.log(f"the customer was not written to: {no}")
        return "not_confirmed"
    return "confirmed"


def read_order(data: Any) -> dict[str, Any]:
    """An order of Shopify, or of any program that sends `{order, total, currency, customer}`; Permanent for neither."""
    facts = data if isinstance(data, dict) else {}
    if isinstance(facts.get("data"), dict) and "order" in facts["data"]:
        inner = facts["data"]
        facts = {"id": inner["order"], "total_price": inner.get("total"), "email": inner.get("customer")} | inner
    number = facts.get("id")
    total = amount(facts.get("total_price"))
    if not isinstance(number, int | str) or isinstance(number, bool) or not str(number) or total is None:
        raise Permanent("this event carries no order with an id and a total_price")
    given = facts.get("line_items")
    lines = given if isinstance(given, list) else []
    return {
        "id": one_line(number)[:100],
        "name": one_line(facts.get("name") or f"#{facts.get('order_number') or number}")[:60],
        "total": str(total),
        "currency": one_line(facts.get("currency") or "")[:10],
        "email": address(facts.get("email") or facts.get("contact_email")),
        "is_test": facts.get("test") is True,
        "is_paid": facts.get("financial_status") in (None, "paid"),
        "lines": [item for line in lines[:MOST_LINES] if (item := line_item(line))],
        "lines_left_out": max(0, len(lines) - MOST_LINES),
    }


def line_item(line: Any) -> dict[str, Any] | None:
    if not isinstance(line, dict) or not isinstance(line.get("title"), str):
        return None
    quantity = line.get("quantity")
    return {"title": line["title"][:100], "quantity": quantity if isinstance(quantity, int) else 1}


def amount(value: Any) -> Decimal | None:
    try:
        number = Decimal(str(value)) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def address(value: Any) -> str:
    """The customer's address, when it is one a mail can be sent to."""
    try:
        return bare(value) if isinstance(value, str) else ""
    except ValueError:
        return ""


def one_line(value: Any) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(value)).strip()


def check(order: dict[str, Any], look_over: str) -> list[str]:
    """What a person should know before he nods, in sentences."""
    total = Decimal(order["total"])
    doubts = [
        (order["is_test"], "it is a test order"),
        (total <= 0, f"its total is {order['total']}"),
        (total >= Decimal(look_over) > 0, f"it is over {look_over}"),
        (not order["email"], "it has no mail address"),
        (not order["is_paid"], "it is not paid"),
    ]
    return [words for found, words in doubts if found]


def line_of(order: dict[str, Any], doubts: list[str]) -> str:
    line = f"Order {order['name']}: {order['total']} {order['currency']}".strip()
    return f"{line} ({'; '.join(doubts)})" if doubts else line


def mail(order: dict[str, Any], shop: str) -> str:
    lines = [f"  {line['quantity']} x {line['title']}" for line in order["lines"]]
    if order["lines_left_out"]:
        lines.append(f"  and {order['lines_left_out']} more")
    total = f"{order['total']} {order['currency']}".strip()
    text = [f"Thank you for your order {order['name']}.", "", *lines, *([""] if lines else []), f"Total: {total}"]
    return "\n".join([*text, "", f"We write again when it is on its way.\n{shop}"])
