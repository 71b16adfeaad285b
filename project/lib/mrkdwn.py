"""Text as Slack writes it, its `mrkdwn`: what stands between `<` and `>` is a link or somebody, `&`, `<`, `>` are
escaped. Pure."""

import re

CONTROL = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}  # `&` first
SCHEMES = ("mailto:", "tel:")


def escaped(text: str) -> str:
    """Plain text as Slack shows it, calling nobody and linking nowhere."""
    for sign, spelt in ESCAPED.items():
        text = text.replace(sign, spelt)
    return text


def plain(text: str) -> str:
    """What somebody typed: links as their addresses, people and channels by name where Slack told it, else by id."""
    text = CONTROL.sub(typed, text)
    for sign, spelt in reversed(ESCAPED.items()):
        text = text.replace(spelt, sign)
    return text


def typed(found: re.Match[str]) -> str:
    to, words = found[1], found[2] or ""
    if to.startswith(("@", "#")):
        return to[0] + (words.removeprefix(to[0]) or to[1:])
    if to.startswith("!"):  # !here, !subteam^S1|@team, !date^…|a moment in words
        return words or "@" + to[1:].partition("^")[0]
    return next((to.removeprefix(scheme) for scheme in SCHEMES if to.startswith(scheme)), to)
