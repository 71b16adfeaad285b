"""The spans of time a chart can show, cut into slots; which one is said in the address of its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from django.db.models import CharField
from django.db.models.functions import Cast, Substr
from django.http import HttpRequest
from django.utils import timezone

from project.lib import svg
from project.lib.language import phrase, spoken, words
from triggers.views.lists import Filters

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FULL = "2000-01-01 00:00"  # what is missing of a text that was cut at the hour or at ten minutes


@dataclass(frozen=True, slots=True)
class Range:
    """`count` slots, each as long as `slot`; rows are counted by the first `letters` of their time."""

    name: str
    count: int
    slot: timedelta
    letters: int
    every: int  # slots between two words of the axis
    clock: str  # how a slot is called
    tick: str
    per: str
    last: str
    keep: timedelta  # what was counted may be so old

    def slots(self, now: datetime) -> list[datetime]:
        """The full or begun ones up to now, oldest first."""
        utc = now.astimezone(UTC)
        end = utc - timedelta(seconds=utc.timestamp() % self.slot.total_seconds())
        return [end - self.slot * back for back in range(self.count - 1, -1, -1)]

    def text(self, field: str) -> Substr:
        """When a row began, by the database itself, cut to what a slot can be told from: SQLite's and PostgreSQL's
        texts of a time begin alike (UTC)."""
        return Substr(Cast(field, CharField()), 1, self.letters)

    def slot_of(self, text: str, first: datetime) -> int:
        """The number of the slot a cut text lies in."""
        return self.place(datetime.fromisoformat(text + FULL[len(text) :]).replace(tzinfo=UTC), first)

    def place(self, at: datetime, first: datetime) -> int:
        return min(self.count - 1, max(0, int((at - first) / self.slot)))

    def label(self, said: str, bars: Sequence[svg.Bar]) -> str:
        """What a picture of these bars tells in one sentence, of `{per}`, `{last}`, `{total}` and `{failed}`."""
        total, failed = sum(bar.total for bar in bars), sum(bar.parts["fail"] for bar in bars)
        return phrase(said, per=spoken(self.per), last=spoken(self.last), total=total, failed=failed)

    def bar(self, at: datetime, number: int, parts: dict[str, int], said: str, path: str, query: str = "") -> svg.Bar:
        """One slot as a column that leads to what it counts: a list at `path`."""
        local = timezone.localtime(at)
        span = urlencode({"since": stamp(at), "until": stamp(at + self.slot)})
        is_ticked = number % self.every == 0 or number == self.count - 1
        title = f"{local:{self.clock}}: {said or phrase('nothing')}"
        return svg.Bar(parts, title, f"{local:{self.tick}}" if is_ticked else "", f"{path}?{query}{span}")


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}Z"


LAST_HOUR = Range(
    "1h", 60, MINUTE, 16, 15, "%H:%M", "%H:%M", words("per minute"), words("in the last hour"), timedelta(seconds=4)
)
RANGES = {
    "1h": LAST_HOUR,
    "24h": Range(
        "24h", 48, 30 * MINUTE, 15, 12, "%H:%M", "%H:%M", words("per 30 min"), words("in the last 24 h"), MINUTE
    ),
    "7d": Range(
        "7d", 56, 3 * HOUR, 13, 8, "%m-%d %H:%M", "%m-%d", words("per 3 h"), words("in the last 7 days"), 10 * MINUTE
    ),
}
NAMES = {"1h": words("1 h"), "24h": words("24 h"), "7d": words("7 d")}


def range_of(request: HttpRequest) -> tuple[Range, dict[str, object]]:
    """The one the address asks for, and what the links to all of them need; what is none is left out and said."""
    filters = Filters(request.GET, ("range", *request.GET))
    found = RANGES[next(iter(filters.some("range", RANGES)), LAST_HOUR.name)]
    asked = {name: "" if name == LAST_HOUR.name else name for name in RANGES}
    links = [(said, filters.address(range=asked[name]), name) for name, said in NAMES.items()]
    return found, {"range": found, "ranges": links, "range_notes": filters.notes}
