"""What a rule wants, in words: `asks 2 of finance, high risk, within 1 h`. Also change windows as people type them."""

import re
from typing import Any

from approvals.errors import NotValid
from approvals.windows import DAYS
from project.lib.language import phrase, words
from project.lib.text import span

WINDOW = re.compile(r"(?:(?P<days>[a-z, -]+?) +)?(?P<since>\d\d:\d\d) ?- ?(?P<until>\d\d:\d\d)")


def wants(rule: Any) -> str:
    """`rule` is anything with the members of a rule."""
    if rule.effect == "deny":
        return phrase("denies it")
    said = [lets(rule)] if rule.effect == "allow" else asks(rule)
    if rule.windows:
        said.append(phrase("only {hours} ({zone})", hours=", ".join(map(window_words, rule.windows)), zone=rule.zone))
    return ", ".join(said)


def lets(rule: Any) -> str:
    if rule.hold:
        return phrase("does it after {time} in which it can be undone", time=span(rule.hold))
    return phrase("does it at once, and tells people")


def asks(rule: Any) -> list[str]:
    many = rule.quorum or 1
    told = words("asks {n} people") if many > 1 else words("asks a person")
    told = words("asks {n} of {people}") if rule.reviewers else told
    said = [phrase(told, n=many, people=" or ".join(rule.reviewers))]
    said += [phrase("high risk")] if rule.tier == "high" else []
    said += [phrase("where no other rule names people")] if rule.otherwise else []
    said += [phrase("four eyes")] if rule.four_eyes else []
    said += [phrase("the next after {time}", time=span(rule.escalate_after))] if rule.escalate_after else []
    said += [phrase("ended by {n} noes", n=rule.rejections)] if rule.rejections > 1 else []
    return [*said, *([phrase("within {time}", time=span(rule.expires))] if rule.expires else [])]


def window_words(window: dict[str, Any]) -> str:
    """`mon-fri 09:00-17:00`, as it is typed too."""
    days, hours = window["days"], f"{window['from']}-{window['to']}"
    first, last = DAYS.index(days[0]), DAYS.index(days[-1])
    if len(days) == len(DAYS):
        return hours
    in_a_row = len(days) > 2 and last - first == len(days) - 1
    return f"{f'{days[0]}-{days[-1]}' if in_a_row else ' '.join(days)} {hours}"


def read_window(text: str) -> dict[str, Any]:
    """One line as people type it. Raises NotValid."""
    found = WINDOW.fullmatch(text.strip().lower())
    if found is None:
        raise NotValid(f"“{text}” is no window; write mon-fri 09:00-17:00.", field="windows")
    named = re.split(r"[ ,]+", (found["days"] or "").strip())
    days = [day for word in named if word for day in days_of(word)]
    return {"days": days, "from": found["since"], "to": found["until"]}


def days_of(word: str) -> list[str]:
    first, dash, last = word.partition("-")
    if first not in DAYS or (dash and last not in DAYS):
        raise NotValid(f"“{word}” names no days; they are {', '.join(DAYS)}.", field="windows")
    if not dash:
        return [first]
    start, end = DAYS.index(first), DAYS.index(last)
    return list(DAYS[start : end + 1]) if start <= end else [*DAYS[start:], *DAYS[: end + 1]]
