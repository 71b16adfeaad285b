"""One real request as somebody pastes it: its headers one a line, its body, and the secret it was signed with."""

import re
from typing import Any

from django import forms

from triggers.forms.fields import MONO, DeskForm
from triggers.sources import fitting
from triggers.sources.places import Headers, headers_in

REQUEST_LINE = re.compile(r"[A-Z]{3,8} (?P<target>\S+)( HTTP/\S+)?")
MOST_HEADERS = 200


class FitForm(DeskForm):
    """What tells how somebody signs; nothing of it is kept."""

    headers = forms.CharField(
        label="Headers",
        max_length=64 * 1024,
        help_text="One a line, Name: value, as the sender's page of deliveries shows them. A request line may stand "
        "first.",
        widget=forms.Textarea(attrs={"rows": 8, **MONO}),
    )
    body = forms.CharField(
        label="Body",
        required=False,
        max_length=1_000_000,
        strip=False,
        help_text="As it was sent, not made prettier: every byte is signed. A body that is no text takes the API.",
        widget=forms.Textarea(attrs={"rows": 8, **MONO}),
    )
    secret = forms.CharField(
        label="Secret",
        max_length=4096,
        help_text="As the sender shows it. It is not kept, and asked for again at each try.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    url = forms.CharField(
        label="Our address, as the sender has it",
        required=False,
        max_length=2000,
        help_text="Twilio and Square sign it; WeCom and DingTalk sign what stands behind its `?`.",
        widget=forms.TextInput(attrs=MONO),
    )

    def clean_headers(self) -> list[tuple[bytes, bytes]]:
        first, *others = lines = self.cleaned_data["headers"].strip().splitlines()
        asked = REQUEST_LINE.fullmatch(first.strip())
        self.target = asked["target"] if asked else ""
        pairs = [pair_of(line) for line in (others if asked else lines) if line.strip()]
        if len(pairs) > MOST_HEADERS:
            raise forms.ValidationError(f"At most {MOST_HEADERS} headers.")
        return pairs

    def fits(self) -> list[dict[str, Any]]:
        """`[{provider, config}]`, for the first way to read the body in which anything fits."""
        clean = self.cleaned_data
        url, _, query = (clean["url"] or self.target).partition("?")
        headers: Headers = headers_in(clean["headers"], query.encode("latin-1", "replace"))
        tried = (
            fitting.fitting(headers, body, clean["secret"], clean["url"] and url) for body in bodies(clean["body"])
        )
        return next(filter(None, tried), [])


def pair_of(line: str) -> tuple[bytes, bytes]:
    name, colon, value = line.strip().partition(":")
    if not colon or not name.strip():
        raise forms.ValidationError(f"This line is no header, Name: value: {line.strip()[:80]}")
    return name.strip().lower().encode("latin-1", "replace"), value.strip().encode("latin-1", "replace")


def bodies(pasted: str) -> list[bytes]:
    """What may have been sent: a browser sends each end of a line as CRLF, and whoever copies often loses the last."""
    text = pasted.replace("\r\n", "\n")
    bare = text.rstrip("\n")
    either = [text, bare, f"{bare}\n"]
    return list(dict.fromkeys(one.encode() for plain in either for one in (plain, plain.replace("\n", "\r\n"))))
