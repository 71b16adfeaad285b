"""A token bucket for each source, in this process's memory: a restart forgets it. Pure; the caller brings the clock."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Bucket:
    """`limit` deliveries in `period` seconds; tokens flow back evenly."""

    limit: float
    period: float
    tokens: float = field(init=False)
    filled_at: float | None = None

    def __post_init__(self) -> None:
        self.tokens = self.limit

    def fill(self, now: float) -> None:
        if self.filled_at is not None:
            self.tokens = min(self.limit, self.tokens + (now - self.filled_at) * self.limit / self.period)
        self.filled_at = now

    def take(self, now: float) -> float:
        """Take a token; 0 when there was one, else the seconds until there is. `now` is monotonic."""
        self.fill(now)
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) * self.period / self.limit

    def owe(self, count: int) -> None:
        """Tokens that are not there yet, of what is kept and matched later: what comes after waits behind it."""
        self.tokens -= count

    def give_back(self, count: int = 1) -> None:
        """A duplicate is free."""
        self.tokens = min(self.limit, self.tokens + count)


class Buckets:
    """The buckets of one process, by source; a changed limit starts a new one."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[tuple[float, float], Bucket]] = {}

    def of(self, source_id: int, rule: dict[str, float]) -> Bucket:
        shape = (float(rule["limit"]), float(rule.get("period", 60)))
        held = self.known.get(source_id)
        if held is None or held[0] != shape:
            held = self.known[source_id] = (shape, Bucket(*shape))
        return held[1]

    def take(self, source_id: int, rule: dict[str, float] | None, now: float) -> float:
        """0, or the seconds until this source may send again; without a rule always 0."""
        return self.of(source_id, rule).take(now) if rule else 0.0

    def owe(self, source_id: int, rule: dict[str, float] | None, count: int) -> None:
        if rule:
            self.of(source_id, rule).owe(count)

    def give_back(self, source_id: int, rule: dict[str, float] | None, count: int = 1) -> None:
        if rule:
            self.of(source_id, rule).give_back(count)

    def forget(self) -> None:
        self.known.clear()


BUCKETS = Buckets()  # a source has one bucket, whichever way its events come in
