"""What an event starts where a trigger holds back: decided under the trigger's lock, on the rows as they are then.

Over any cursor of the door, so that event, run and outcome share one commit. Runs that must give way are only marked
here; whoever works on them, or tick, ends them in a transaction of its own."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from triggers.dialect import Dialect, marks
from triggers.errors import TriggerFull
from triggers.limits import Concurrency, Debounce, Queue, RateLimit
from triggers.matching import Rule

FLOW_COLUMNS = ("slot_key", "rate_key", "not_before", "gather_key")  # of a run whose trigger holds back
OUTCOMES = ("skipped", "dropped", "gathered")  # what becomes of a match that starts no run of its own
QUEUED = "status IN ('queued', 'retrying') AND cancel_requested_at IS NULL"  # as the index has it: no parameters
FRESH = "status = 'queued' AND started_at IS NULL AND cancel_requested_at IS NULL"
TRIES = 3  # times a place is made before a worker's claims have made enough of them


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one match. `values` are those of FLOW_COLUMNS when a run starts, due then; else None.

    `run`: the one that gathers the event. `rings`: it may be taken up at once."""

    outcome: str
    detail: str = ""
    run: int | None = None
    values: tuple[Any, ...] | None = None
    due: datetime | None = None
    rings: bool = False


def lock(db: Dialect, rules: Iterable[Rule]) -> None:
    """Hold the rows of the triggers that hold back, in the order of their ids."""
    for trigger_id in sorted({rule.trigger_id for rule in rules if rule.flow}):
        db.rows(f"SELECT id FROM triggers_trigger WHERE id = %s{db.lock}", [trigger_id])


class Gate:
    """One trigger whose row is held; `now` is the database's."""

    def __init__(self, db: Dialect, rule: Rule, now: datetime) -> None:
        assert rule.flow is not None
        self.db, self.rule, self.flow, self.now = db, rule, rule.flow, now

    def decide(self, seq: int, keys: dict[str, str], run_id: int, *, at_edge: bool) -> Decision:
        """What event `seq` starts, as run `run_id` if it starts one.

        Raises TriggerFull when the sender is to wait; an event that is stored already (not `at_edge`) waits inside."""
        debounce, busy, rate = self.flow.debounce, self.flow.concurrency, self.flow.rate_limit
        gather_key = keys.get("debounce", "") if debounce else None
        if debounce and (joined := self.join(debounce, gather_key, seq)):
            return Decision("gathered", "an earlier event's run gathers it", run=joined)
        slot_key = keys.get("concurrency", "") if busy else None
        live = self.live(busy, slot_key) if busy else 0
        verdict = busy.decide(live) if busy else "start"
        if busy and verdict == "skip":
            self.tally("skipped", self.rule.slug)
            return Decision("skipped", skip_words(busy))
        if self.flow.queue and not self.makes_room(self.flow.queue, at_edge=at_edge):
            return Decision("dropped", f"{self.flow.queue.limit} runs of this trigger were waiting already")
        if busy and verdict == "replace":
            self.replace(busy, slot_key)
        rate_key = keys.get("rate_limit", "") if rate else None
        turn = self.turn(rate, rate_key) if rate else None
        quiet = debounce.due(self.now, self.now) if debounce else None
        due = max(moment for moment in (self.now, turn, quiet) if moment)
        if debounce:
            self.gather(run_id, seq)
        rings = due <= self.now and (busy is None or live < busy.limit)
        return Decision("matched", values=(slot_key, rate_key, self.db.when(turn), gather_key), due=due, rings=rings)

    def count(self, which: str, params: list[Any], most: int) -> int:
        """How many runs of this trigger are so, at most `most`."""
        sql = f"SELECT count(*) FROM (SELECT 1 FROM triggers_run WHERE trigger_id = %s AND {which} LIMIT %s) AS counted"
        return int(self.db.rows(sql, [self.rule.trigger_id, *params, most])[0][0])

    def live(self, busy: Concurrency, key: str | None) -> int:
        """Runs of this key that have a slot, and those that will ask for one."""
        sql = 'SELECT count(*) FROM triggers_slot WHERE trigger_id = %s AND "key" = %s'
        placed = int(self.db.rows(sql, [self.rule.trigger_id, key])[0][0])
        return placed + self.count(f"{QUEUED} AND {of_key(busy)} AND NOT {PLACED}", [key], busy.limit + 1)

    def replace(self, busy: Concurrency, key: str | None) -> None:
        """Mark the older runs of this key, so that with the new one there are as many as may work."""
        live = f"(status IN ('queued', 'retrying') OR {PLACED}) AND cancel_requested_at IS NULL"
        sql = (
            f"SELECT id FROM triggers_run WHERE trigger_id = %s AND {live} AND {of_key(busy)} ORDER BY id{self.db.lock}"
        )
        ids = [row[0] for row in self.db.rows(sql, [self.rule.trigger_id, key])]
        if goes := ids[: max(0, len(ids) - (busy.limit - 1))]:
            sql = (
                f"UPDATE triggers_run SET cancel_requested_at = %s, cancel_reason = %s WHERE id IN ({marks(len(goes))})"
            )
            self.db.run(sql, [self.db.when(self.now), "replaced", *goes])

    def makes_room(self, queue: Queue, *, at_edge: bool) -> bool:
        """Whether one more run may wait, perhaps in the place of the oldest one."""
        for _ in range(TRIES):
            if self.count(QUEUED, [], queue.limit) < queue.limit:
                return True
            if queue.when_full == "block":
                if at_edge:
                    raise TriggerFull(trigger=self.rule.slug)
                return True
            if queue.when_full == "drop_newest" or not self.drop_oldest():
                break
        self.note_drop(queue.when_full)
        return False

    def drop_oldest(self) -> bool:
        """Mark the oldest run that has never started; False when there is none."""
        sql = f"SELECT id FROM triggers_run WHERE trigger_id = %s AND {QUEUED} AND {FRESH} ORDER BY id LIMIT 1"
        found = self.db.rows(sql, [self.rule.trigger_id])
        if not found:
            return False
        sql = f"UPDATE triggers_run SET cancel_requested_at = %s, cancel_reason = %s WHERE id = %s AND {FRESH}"
        self.db.run(sql, [self.db.when(self.now), "dropped", found[0][0]])
        if self.db.cursor.rowcount:
            self.note_drop("drop_oldest")
        return True

    def note_drop(self, strategy: str) -> None:
        """Count it where metrics and health read it, and let tick say that the queue ran over."""
        self.tally("dropped", self.rule.slug, strategy)
        sql = "UPDATE triggers_trigger SET full_at = %s WHERE id = %s AND full_at IS NULL"
        self.db.run(sql, [self.db.when(self.now), self.rule.trigger_id])

    def tally(self, name: str, *labels: str) -> None:
        grown = "ON CONFLICT (name, labels) DO UPDATE SET value = triggers_tally.value + 1"
        told = [name, json.dumps(labels, ensure_ascii=False)]
        self.db.run(f"INSERT INTO triggers_tally (name, labels, value) VALUES (%s, %s, 1) {grown}", told)

    def turn(self, rate: RateLimit, key: str | None) -> datetime:
        """When a further run may start: `limit` places behind in the order of turns, a period later.

        What has not started and never will has none."""
        sql = (
            "SELECT not_before FROM triggers_run WHERE trigger_id = %s AND rate_key = %s AND not_before IS NOT NULL "
            "AND (started_at IS NOT NULL OR (finished_at IS NULL AND cancel_requested_at IS NULL)) "
            "ORDER BY not_before DESC LIMIT 1 OFFSET %s"
        )
        ahead = self.db.rows(sql, [self.rule.trigger_id, key, rate.limit - 1])
        return rate.turn(self.now, self.db.moment(ahead[0][0]) if ahead else None)

    def join(self, debounce: Debounce, key: str | None, seq: int) -> int | None:
        """Let the run that gathers this key have the event too; None when there is none that was not taken up."""
        sql = (
            "SELECT id, queued_at, not_before FROM triggers_run "
            f"WHERE trigger_id = %s AND {QUEUED} AND {FRESH} AND gather_key = %s ORDER BY id DESC LIMIT 1"
        )
        found = self.db.rows(sql, [self.rule.trigger_id, key])
        if not found:
            return None
        run_id, first, turn = found[0]
        due = max(filter(None, [debounce.due(self.now, self.db.moment(first)), turn and self.db.moment(turn)]))
        sql = (
            "UPDATE triggers_run SET due_at = %s, event_id = CASE WHEN event_id < %s THEN %s ELSE event_id END "
            f"WHERE id = %s AND {FRESH}"
        )
        self.db.run(sql, [self.db.when(due), seq, seq, run_id])
        if not self.db.cursor.rowcount:
            return None  # a worker took it up just now
        self.gather(run_id, seq)
        return int(run_id)

    def gather(self, run_id: int, seq: int) -> None:
        self.db.run("INSERT INTO triggers_gathered (run_id, event_id) VALUES (%s, %s)", [run_id, seq])


PLACED = "EXISTS (SELECT 1 FROM triggers_slot WHERE triggers_slot.run_id = triggers_run.id)"


def of_key(busy: Concurrency) -> str:
    """The runs that share a limit; without a key those of before it was set, too."""
    return "slot_key = %s" if busy.key else "(slot_key = %s OR slot_key IS NULL)"


def skip_words(busy: Concurrency) -> str:
    if busy.when_busy == "queue_one":
        return "one run of this trigger is at work and one waits"
    return "an earlier run of this trigger is still at work"
