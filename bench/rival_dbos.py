"""DBOS, in the environment of bench.runs (`var/bench`): the same story of three steps that return a number.

    python rival_dbos.py work ADDRESS | send ADDRESS COUNT

A worker says `ready` and works until it is ended; a sender starts COUNT stories, waits until all have succeeded, and
prints the seconds from the first start to the last end."""

import os
import sys
import time

import sqlalchemy  # type: ignore[import-not-found]
from dbos import DBOS, DBOSClient  # type: ignore[import-not-found]

QUEUE = "bench"
EVERY = 0.02  # seconds between two looks whether all have ended
POLL = 0.05  # seconds between a worker's looks at the queue; its own default is one
VERSION = "1"  # else it is a hash of the code, which the sender has not


@DBOS.step()  # type: ignore[untyped-decorator]
def step(number: int) -> int:
    return number


@DBOS.workflow()  # type: ignore[untyped-decorator]
def story(number: int) -> int:
    return int(step(number) + step(number) + step(number))


def work(address: str) -> None:
    names = {"executor_id": f"worker-{os.getpid()}", "application_version": VERSION}
    DBOS(config={"name": "bench", "system_database_url": address, "log_level": "ERROR", **names})
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=8, polling_interval_sec=POLL)
    print("ready", flush=True)
    while True:
        time.sleep(60)


def send(address: str, count: int) -> float:
    client = DBOSClient(system_database_url=address)
    engine = sqlalchemy.create_engine(address)
    table = "workflow_status" if address.startswith("sqlite") else "dbos.workflow_status"
    ended = sqlalchemy.text(f"SELECT count(*) FROM {table} WHERE status = 'SUCCESS'")

    def done() -> int:
        with engine.connect() as connection:
            return int(connection.execute(ended).scalar_one())

    before, began = done(), time.monotonic()
    for number in range(count):
        client.enqueue({"queue_name": QUEUE, "workflow_name": "story", "app_version": VERSION}, number)
    while done() - before < count:
        time.sleep(EVERY)
    return time.monotonic() - began


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2])
    else:
        print(send(sys.argv[2], int(sys.argv[3])))
