"""A watched tree of 50,000 files in 500 folders: what it costs at rest, how soon a change is told, whether a burst is.

    python -m bench files [--folders 500] [--each 100] [--seconds 60] [--changes 200] [--burst 5000]

A whole `manage.py up`. At rest: processor time of `listen` and of the whole desk. A change: from the file's
renaming into its place to the event's arrival, less the time to settle. Targets: idle < 0.5 % of a core, p99 < 250 ms
plus settle, none lost."""

import argparse
import json
import os
import time
from datetime import datetime
from pathlib import Path

from bench.figures import spread
from bench.idle import SETTLE, times
from tests.processes import Desk, desk

SLUG, SETTLED = "tree", 0.5  # the source, and its settle_seconds
SOURCE = """
from triggers.configure import make_source
config = {{"path": {path!r}, "recursive": True, "settle_seconds": {settled}}}
make_source(by=None, slug={slug!r}, kind="file", config=config)
"""
PAUSE = 0.05  # seconds between two changes


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench files")
    for name, usual in (("folders", 500), ("each", 100), ("seconds", 60), ("changes", 200), ("burst", 5000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    wish = parser.parse_args(arguments)
    with desk(quick=False) as shop:
        tree = shop.folder / "inbox" / "tree"
        grow(tree, wish.folders, wish.each)
        shop.start()
        shop.python(SOURCE.format(path=str(tree), slug=SLUG, settled=SETTLED))
        began = time.monotonic()
        shop.until(lambda: known(shop) == wish.folders * wish.each, seconds=600, every=0.5)
        first = time.monotonic() - began
        time.sleep(SETTLE)
        say("files, first look", seconds=round(first, 1), files=wish.folders * wish.each)
        say("files at rest, % of one core", **rest(shop, wish.seconds))
        took = changed(shop, tree, wish.changes, wish.folders)
        say(f"files, change to event less {SETTLED} s to settle, ms", **spread(took))
        say("files, burst", **burst(shop, tree, wish.burst, wish.folders))


def say(figure: str, **told: object) -> None:
    print(json.dumps({"figure": figure, **told}), flush=True)


def grow(tree: Path, folders: int, each: int) -> None:
    for number in range(folders):
        folder = tree / f"f{number:04}"
        folder.mkdir(parents=True)
        for one in range(each):
            (folder / f"{one:04}.txt").write_text(f"{number} {one}")


def known(shop: Desk) -> int:
    joined = "triggers_watch JOIN triggers_source ON source_id = triggers_source.id WHERE slug = ? AND mode = 'native'"
    found = shop.rows(f"SELECT files FROM {joined}", SLUG)
    return int(found[0][0]) if len(found) else 0


def rest(shop: Desk, seconds: float) -> dict[str, float]:
    before, began = times(shop), time.monotonic()
    time.sleep(seconds)
    after, took = times(shop), time.monotonic() - began
    busy = {name: 100 * (after[name] - before.get(name, 0)) / took for name in after}
    return {"listen": round(busy["listen"], 2), "whole desk": round(sum(busy.values()), 2)}


def changed(shop: Desk, tree: Path, many: int, folders: int) -> list[float]:
    """Seconds from each change to its event, by the clock of this machine, less the time to settle."""
    at: dict[str, float] = {}
    for number in range(many):
        name = f"f{number % folders:04}/new-{number:05}.txt"
        put(tree, name, f"new {number}")
        at[name] = time.time()
        time.sleep(PAUSE)
    shop.until(lambda: told(shop, "%/new-%") == many, seconds=60)
    return [moment(when) - at[name] - SETTLED for name, when in rows(shop, "%/new-%")]


def burst(shop: Desk, tree: Path, many: int, folders: int) -> dict[str, object]:
    began = time.monotonic()
    for number in range(many):
        (tree / f"f{number % folders:04}" / f"burst-{number:05}.txt").write_text(f"burst {number}")
    written = time.monotonic() - began
    shop.until(lambda: told(shop, "%/burst-%") >= many, seconds=300, every=0.2)
    took = time.monotonic() - began
    [(recovered,)] = shop.rows("SELECT sum(recovered) FROM triggers_watch")
    once = len({name for name, _ in rows(shop, "%/burst-%")})
    return {
        "files": many,
        "lost": many - once,
        "doubled": told(shop, "%/burst-%") - once,
        "written in s": round(written, 1),
        "told in s": round(took, 1),
        "found by looking": recovered,
    }


def put(tree: Path, name: str, text: str) -> None:
    draft = tree / f"{name}.part"
    draft.write_text(text)
    os.replace(draft, tree / name)


def told(shop: Desk, like: str) -> int:
    return shop.count("triggers_event", "source_slug = ? AND subject LIKE ?", SLUG, like)


def rows(shop: Desk, like: str) -> list[tuple[str, str]]:
    query = "SELECT subject, received_at FROM triggers_event WHERE source_slug = ? AND subject LIKE ?"
    return [(str(name), str(at)) for name, at in shop.rows(query, SLUG, like)]


def moment(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()
