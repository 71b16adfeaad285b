"""Celery without Nightdesk, for bench.runs: a task that does nothing, and a chain of three. It remembers nothing."""

import os

import redis
from celery import Celery, chain

SOCKET = os.environ["BENCH_SOCKET"]
DONE = "bench:done"
counter = redis.Redis(unix_socket_path=SOCKET)
app = Celery("plain", broker=f"redis+socket://{SOCKET}?virtual_host=0")
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=1, worker_hijack_root_logger=False)


@app.task
def nothing(number: int) -> int:
    return number


@app.task
def last(number: int) -> None:
    """Counts, so that somebody can tell when all are done."""
    counter.incr(DONE)


def send_one(number: int) -> None:
    last.delay(number)


def send_three(number: int) -> None:
    chain(nothing.s(number), nothing.s(), last.s()).apply_async()
