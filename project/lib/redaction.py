"""What reaches no line of the log and no error that is kept: secrets by their value, by their look, and by the name
they stand beside.

One pass over the finished text catches what a formatted message, a fact and a traceback quote alike."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from django.conf import settings

HIDDEN = "***"
SHORTEST = 6  # characters; a shorter value would blot out ordinary words
# Every repetition has an end, or a hostile text of some kilobytes would hold up whoever logs it.
NAMES = (
    r"(?<![\w-])(?:[\w-]{0,40}?(?:passw(?:or)?d|pwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|field[_-]?key|credential|signature|csrf|session(?:_?id)?)[\w-]{0,40}|sig(?![\w-]))"
)
HEADERS = r"(?<![\w-])(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|[\w-]{0,40}?signature[\w-]{0,40})"
# A value as code and JSON write it. Every part is possessive (`++`) and may lack its end: a text that was cut, too.
TEXT = r"(?:[a-zA-Z]{0,2}\"(?:[^\"\\\n]++|\\.)*+\"?|[a-zA-Z]{0,2}'(?:[^'\\\n]++|\\.)*+'?)"
ESCAPED = r"(?P<mark>\\{1,8})\"(?:[^\"\\\n]++|\\++(?!\")|(?P=mark)\\++\")*+(?:(?P=mark)\")?"  # JSON inside a text
PLAIN = r"[^\[\](){}\"'\n]++"
INNER = rf"[\[({{](?:{TEXT}|{PLAIN})*+[\])}}]?"
GROUP = rf"[\[({{](?:{TEXT}|{PLAIN}|{INNER})*+[\])}}]?"  # a list or an object, and what is nested in it once
VALUE = rf"{TEXT}|{ESCAPED}|{GROUP}|[^\s\"'&,;)}}\]]+"
MARKS = (  # how providers' keys begin
    r"gh[opsur]_|github_pat_|gl(?:pat|ptt|dt|rt|cbt|ft|imt|soat|agent)-|xox[a-z]-|xapp-|[spr]k_(?:live|test)_|whsec_|sk-"
)
HOOKS = (  # addresses whose path is the secret
    r"hooks\.slack(?:-gov)?\.com|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook|api\.telegram\.org"
    r"|discord(?:app)?\.com/api/webhooks|\.webhook\.office\.com"
)
# Any other scheme is taken for a notification service's (`tgram://…`), whose keys stand in the path.
SCHEMES = r"https?|wss?|s?ftp|ftps|file|rediss?|postgres(?:ql)?|amqps?|sqlite3?|smtps?|memory|s3|ssh|git|tcp|udp|grpc"
PEM = r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"

RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(PEM, re.DOTALL), HIDDEN),
    # (b'authorization', b'Bearer …') in lists of headers, then `Authorization: Bearer …` in any other text
    (re.compile(rf"(?i)(b?(['\"])(?:{HEADERS})\2\s*[,:]\s*b?)(['\"])[^\n]*?\3"), rf"\1\3{HIDDEN}\3"),
    (re.compile(rf"(?i)({HEADERS}\s*[:=]\s*)[^\n]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic|digest)\s+[\w.~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]{0,20}://)[^\s/?#'\"]{0,1000}@"), rf"\1{HIDDEN}@"),
    (re.compile(rf"(?i)\b((?!(?:{SCHEMES}):)[a-z][a-z0-9+.-]{{0,20}}://)[^\s'\"<>]+"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)((?:{HOOKS})/)[^\s'\"<>]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)((?:[?&]|&amp;)(?:key|pass|auth)=)[^\s&#'\"<>]+"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)([\[(]\s{{0,8}}b?(['\"]){NAMES}\2\s{{0,8}},\s{{0,8}}){TEXT}"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)({NAMES}\\{{0,8}}['\"]?\s{{0,40}}[:=]\s{{0,40}})(?:{VALUE})"), rf"\1{HIDDEN}"),
    (re.compile(r"\bnd_[\w-]{8,}"), f"nd_{HIDDEN}"),
    (re.compile(rf"\b(?:{MARKS})[\w.=+/-]{{8,}}"), HIDDEN),
    (re.compile(r"\bAKIA[A-Z0-9]{12,}|\beyJ[\w-]{8,2000}\.[\w-]+(?:\.[\w-]+)?"), HIDDEN),
    (re.compile(r"\b(sha(?:1|256|512)|v\d{1,3}a?)([=,])[A-Za-z0-9+/=_-]{32,}"), rf"\1\2{HIDDEN}"),
)
BY_NAME = re.compile(rf"(?i)^(?:{NAMES}|{HEADERS})$")


def without_secrets(text: str) -> str:
    """An error's words as they may be kept and shown."""
    return redactor().text(text)


@cache
def redactor() -> "Redactor":
    return Redactor(settings.SECRETS)


class Redactor:
    """Takes out what is secret of one text; `secrets` are values that are known."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({value for value in secrets if len(value) >= SHORTEST}, key=len, reverse=True)
        self.known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        if self.known:
            text = self.known.sub(HIDDEN, text)
        for pattern, instead in RULES:
            text = pattern.sub(instead, text)
        return text

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The same of every text in `facts`, at any depth; whatever stands under a secret's name goes whole."""
        return {name: HIDDEN if BY_NAME.match(str(name)) else self.value(value) for name, value in facts.items()}

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self.facts({str(name): item for name, item in value.items()})
        if isinstance(value, list | tuple | set | frozenset):
            return [self.value(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))
