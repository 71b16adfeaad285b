"""absurd, in the environment of bench.runs (`var/bench`): the same story of three steps that return a number.

    python rival_absurd.py prepare ADDRESS | work ADDRESS | send ADDRESS COUNT

A worker says `ready` and works until it is ended; a sender starts COUNT stories, waits until all have succeeded, and
prints the seconds from the first start to the last end."""

import sys
import time
from typing import Any

import psycopg
from absurd_sdk import Absurd  # type: ignore[import-not-found]
from absurdctl import BUNDLED_SCHEMA_SQL  # type: ignore[import-not-found]

QUEUE = "bench"
EVERY = 0.02  # seconds between two looks whether all have ended
POLL = 0.05  # seconds between a worker's looks at the queue; its own default is a quarter


def prepare(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)
    Absurd(address, queue_name=QUEUE).create_queue(QUEUE)


def story(params: dict[str, int], context: Any) -> int:
    return sum(context.step(f"step-{place}", lambda: params["number"]) for place in range(3))


def work(address: str) -> None:
    app = Absurd(address, queue_name=QUEUE)
    app.register_task(name="story")(story)
    print("ready", flush=True)
    app.start_worker(concurrency=1, batch_size=8, poll_interval=POLL)


def send(address: str, count: int) -> float:
    app = Absurd(address, queue_name=QUEUE)
    with psycopg.connect(address, autocommit=True) as connection:

        def done() -> int:
            found = connection.execute(f"SELECT count(*) FROM absurd.t_{QUEUE} WHERE state = 'completed'").fetchone()
            return int(found[0]) if found else 0

        before, began = done(), time.monotonic()
        for number in range(count):
            app.spawn("story", {"number": number}, queue=QUEUE)
        while done() - before < count:
            time.sleep(EVERY)
        return time.monotonic() - began


if __name__ == "__main__":
    what, address, *count = sys.argv[1:]
    if what == "send":
        print(send(address, int(count[0])))
    else:
        {"prepare": prepare, "work": work}[what](address)
