"""Which processes make a desk, and how each is started."""

import os
import sys
from collections.abc import Callable

from django.conf import settings

from project import backends, valkey
from project.supervise import Child

PLAN = "processes.json"  # in DATA_DIR: the processes of the last `up`, as its supervisor reads them
NAMES = ("valkey", "web", "worker", "desk", "beat", "listen")
DESK_SLOTS = 2  # so that a slow delivery does not hold up tick
PYTHON = [sys.executable]
CELERY = [*PYTHON, "-m", "project.celery_main"]
CELERY_ENV = {
    "REMAP_SIGTERM": "SIGQUIT",  # SIGTERM then means: give every run back, be gone within the soft shutdown timeout
    "CELERY_SKIP_CHECKS": "true",  # those of Django, which `make test` asks: they load every page and address
    "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",  # a container has no other user
}


def children(names: list[str], *, workers: int, log_format: str) -> list[Child]:
    """The chosen processes, in the order they start; without `valkey` when REDIS_URL names one.

    Their standard error is a pipe: whether a person reads along is known to `up` alone (`log_format`)."""
    makers: dict[str, Callable[[], Child]] = {
        "valkey": valkey_server,
        "web": web,
        "worker": lambda: worker("worker", queue="runs", slots=workers),
        "desk": lambda: worker("desk", queue="desk", slots=DESK_SLOTS),
        "beat": beat,
        "listen": listen,
    }
    chosen = [makers[name]() for name in NAMES if name in names and (name != "valkey" or settings.REDIS.ours)]
    for child in chosen:
        child.env |= {"LOG_FORMAT": log_format, "LOG_FORMAT_FILE": ""}
    return chosen


def valkey_server() -> Child:
    path = backends.valkey_socket(settings.DATA_DIR)
    command = valkey.command(path, folder=settings.DATA_DIR)
    return Child("valkey", command, ready=f"unix:{path}", last=True)


def web() -> Child:
    host = settings.HOST
    command = [*PYTHON, "-m", "uvicorn", "project.asgi:application", "--host", host, "--port", str(settings.PORT)]
    command += ["--http", "project.http:Bounded", "--no-server-header", "--no-access-log", "--log-level", "warning"]
    command += ["--timeout-graceful-shutdown", "5"]
    command += ["--forwarded-allow-ips", ",".join(settings.TRUSTED_PROXIES)]
    near = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return Child("web", command, {"NIGHTDESK_PROCESS": "web"}, ready=f"tcp:{near}:{settings.PORT}")


def worker(name: str, *, queue: str, slots: int) -> Child:
    command = [
        *CELERY,
        "worker",
        "--hostname",
        f"{name}-{os.getpid()}@%h",
        "--queues",
        queue,
        "--concurrency",
        str(slots),
    ]
    command += ["--pool", "prefork", "-O", "fair", "--without-gossip", "--without-mingle", "--loglevel", "WARNING"]
    return Child(name, command, CELERY_ENV | {"NIGHTDESK_PROCESS": name})


def beat() -> Child:
    return Child("beat", [*CELERY, "beat", "--loglevel", "WARNING"], {"NIGHTDESK_PROCESS": "beat"})


def listen() -> Child:
    return Child("listen", [*PYTHON, "manage.py", "listen"], {"NIGHTDESK_PROCESS": "listen"})
