"""How a message reaches one person: mail, Slack, Feishu, WeCom, DingTalk, Telegram, and whatever Apprise knows.

A carrier sends a `Letter` to an address and says how the far side calls the message, so that it can be brought up to
date later where the far side lets us. It raises NotSent, Refused or OutcomeUnknown. No text is markup to any of them,
so a headline can neither call people by name nor hide an address behind another one.
"""

import re

from approvals.carrying import Carrier, Clicks, Letter, Ref, harmless, refused
from approvals.chats import feishu, slack, telegram
from approvals.connectors import chat, mail, notify
from approvals.kinds import Far

# Mail


def mail_address(text: str) -> str:
    try:
        return mail.bare(text)
    except ValueError as error:
        raise refused(f"The address {error}.") from None


def send_mail(far: Far, address: str, letter: Letter) -> Ref:
    wanted = mail.Mail(to=[address], subject=letter.title[:500], body="\n".join([*letter.lines, "", letter.link]))
    first = (letter.follows or {}).get("message_id")
    message, _ = mail.send(far, wanted, letter.key, follows=str(first or ""))
    return {"message_id": message["Message-ID"]}


# Bots of a group: whoever has the webhook reaches the group, and nobody else


def no_address(text: str) -> str:
    if text:
        raise refused("This connection leads to one group; leave the address empty.")
    return ""


def send_feishu(far: Far, address: str, letter: Letter) -> Ref:
    chat.feishu(far, chat.FeishuPost(text=harmless(letter.text)), letter.key)
    return {}


def send_wecom(far: Far, address: str, letter: Letter) -> Ref:
    chat.wecom(far, chat.WecomPost(text=cut(letter, chat.BYTES["wecom"])), letter.key)
    return {}


def send_dingtalk(far: Far, address: str, letter: Letter) -> Ref:
    chat.dingtalk(far, letter.text)
    return {}


def cut(letter: Letter, most: int) -> str:
    """The text within so many bytes; the address of the page is never what goes."""
    room = most - len(letter.link.encode()) - 1
    head = "\n".join([letter.title, *letter.lines]).encode()[:room].decode("utf-8", "ignore")
    return f"{head}\n{letter.link}" if letter.link else head


# Apprise: the addresses are the connection's, and an admin's to write; a person picks one of its named channels


def channel_name(text: str) -> str:
    if not re.fullmatch(r"[^:/]{0,64}", text):
        raise refused("Write the name of one of the connection's channels, or nothing for all its addresses.")
    return text


def send_apprise(far: Far, address: str, letter: Letter) -> Ref:
    body = "\n".join([*letter.lines, letter.link]).strip() or letter.title
    notify.deliver(far, notify.Message(title=letter.title[:200], text=body, channel=address), letter.key)
    return {}


CARRIERS = {
    carrier.system: carrier
    for carrier in (
        Carrier("smtp", "Mail", "Your mail address", mail_address, send_mail),
        Carrier(
            "slack",
            "Slack",
            "Your member id (U…)",
            slack.member,
            slack.send,
            slack.replace,
            slack.CLICKS,
            needs="token",
        ),
        Carrier("feishu", "Feishu", "", no_address, send_feishu),
        Carrier("wecom", "WeCom", "", no_address, send_wecom),
        Carrier("dingtalk", "DingTalk", "", no_address, send_dingtalk),
        Carrier("telegram", "Telegram", "Your chat's id", telegram.chat_id, telegram.send, telegram.replace),
        Carrier("notify", "Notifications", "One of its channels", channel_name, send_apprise),
    )
}
TO_ONE = {  # where the same connection also leads to single people, once it holds what that needs
    "feishu": Carrier(
        "feishu",
        "Feishu",
        "Your mail address in Feishu, or open id (ou_…)",
        feishu.person,
        feishu.send,
        feishu.replace,
        feishu.CLICKS,
        needs="app_secret",
    ),
}


def carrier_of(system: str, address: str) -> Carrier:
    """The way to this address; without one, where there is a choice, to the group. Raises KeyError."""
    return TO_ONE[system] if address and system in TO_ONE else CARRIERS[system]


def clicks_of(system: str) -> Clicks | None:
    """How the far side of this system proves clicks; None where it does not."""
    both = (CARRIERS.get(system), TO_ONE.get(system))
    return next((carrier.clicks for carrier in both if carrier and carrier.clicks), None)
