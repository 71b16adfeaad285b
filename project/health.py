"""Is the desk able to work? Asked by people's probes (`/readyz`) and by every process before it starts."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from pkgutil import iter_modules

import redis
from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from project.lib import stream, unwritten
from project.people.auth import Bearer, Caller
from triggers.models import Pulse, Source, Watch

FULL = 64 * 1024**2  # bytes; with less free, writes fail any moment
PATIENCE = 2.0  # seconds for the broker to answer
SILENCE = 3.0  # seconds a broker that did not is left alone
TICK_IS_LATE = 30.0  # seconds; `listen` helps out after ten


def unapplied_migrations() -> list[str]:
    """Names like `triggers.0002_waits` of the migrations this code needs and the database lacks."""
    if migrations_of_the_code() <= MigrationRecorder(connection).applied_migrations().keys():
        return []  # every process asks this at its start, and probes do: nothing is loaded for the usual answer
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def migrations_of_the_code() -> set[tuple[str, str]]:
    """App and name of every migration there is a file of, as Django's own loader would find them."""
    modules = {app.label: MigrationLoader.migrations_module(app.label)[0] for app in apps.get_app_configs()}
    found = {label: find_spec(module) for label, module in modules.items() if module}
    return {
        (label, name)
        for label, spec in found.items()
        for _, name, is_package in iter_modules(spec.submodule_search_locations if spec else [])
        if not is_package and name[0] not in "_~"
    }


def require_migrated() -> None:
    """End this process in one line when the database is older than the code, or not there."""
    try:
        missing = unapplied_migrations()
    except DatabaseError as error:
        raise SystemExit(f"nightdesk: the database cannot be used: {str(error).strip()}") from error
    if missing:
        raise SystemExit(
            f"nightdesk: the database lacks {len(missing)} migrations (first: {missing[0]}); run: manage.py migrate"
        )


def database() -> str:
    missing = unapplied_migrations()
    return f"{len(missing)} migrations are not applied" if missing else ""


def storage() -> str:
    """Why nothing can be written, as far as that is known."""
    if is_read_only():
        return "the database is read-only"
    free = shutil.disk_usage(folder()).free
    if free < FULL:
        return f"the disk is full: {free // 1024**2} MB are free where {folder()} lies"
    said = unwritten.lately()
    return f"the database takes no writes: {said}" if said else ""


def is_read_only() -> bool:
    if is_sqlite():
        return any(path.exists() and not os.access(path, os.W_OK) for path in (database_file(), folder()))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean")
        return bool(cursor.fetchone()[0])


def database_file() -> Path:
    return Path(str(settings.DATABASES["default"]["NAME"]))


def folder() -> Path:
    """Where what the desk writes on this machine lies."""
    place = database_file().parent if is_sqlite() else settings.DATA_DIR
    return place if place.is_dir() else settings.DATA_DIR


def broker() -> str:
    if not settings.CELERY_BROKER_URL.startswith(("redis", "unix")):
        return ""  # only Celery can speak to it; a lost bell is repaired by tick
    with valkey() as client:
        client.set("asked", 1, ex=60)  # a full one still answers a ping
    return ""


class Silence:
    """A broker that hangs is waited for once: a page has more than one question for it."""

    until = float("-inf")  # by the monotonic clock


def is_silent() -> bool:
    """Whether the broker just let somebody wait in vain."""
    return time.monotonic() < Silence.until


@contextmanager
def valkey() -> Iterator[redis.Redis]:
    """A client of the broker that does not wait long, and not at all while it is known to be silent."""
    if is_silent():
        raise redis.TimeoutError("It let somebody wait in vain a moment ago")
    try:
        with stream.client(PATIENCE) as client:
            yield client
    except redis.TimeoutError:
        Silence.until = time.monotonic() + SILENCE
        raise


def is_sqlite() -> bool:
    return connection.vendor == "sqlite"


def tick() -> str:
    age = Pulse.age("tick")
    if age is None:
        return "tick has never run"
    return f"tick is {age:.0f} s late" if age > TICK_IS_LATE else ""


def listeners() -> dict[str, str]:
    """What is wrong with the listener of each open source that needs one; an empty text: it listens."""
    watches = {watch.source_id: watch for watch in Watch.objects.all()}
    sources = Source.objects.open().filter(kind__in=Source.LISTENED).order_by("slug")
    return {source.slug: fault_of(watches.get(source.pk)) for source in sources}


def fault_of(watch: Watch | None) -> str:
    if watch is None or not (watch.is_kept or watch.status == Watch.FAILED):
        return "nobody listens"
    return "" if watch.status in (Watch.WATCHING, Watch.HELD) else watch.detail or watch.status


CHECKS: dict[str, Callable[[], str]] = {"database": database, "storage": storage, "broker": broker, "tick": tick}


def problems() -> dict[str, str]:
    """What keeps the desk from working, by check; empty when all is well.

    A database that does not answer is not asked again: a probe would not wait for so many silences."""
    found = {}
    silent = False
    for name, check in CHECKS.items():
        if silent and name != "broker":
            continue
        try:
            found[name] = check()
        except (DatabaseError, redis.RedisError, OSError) as error:
            found[name] = str(error).strip() or type(error).__name__
            silent = silent or isinstance(error, DatabaseError)
    return {name: problem for name, problem in found.items() if problem}


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """200 when all checks pass, else 503; the reasons are for this machine and for tokens with scope `read`."""
    found = problems()
    status = 503 if found else 200
    told = {"problems": found} if is_local(request) or may_read(request) else {}
    answer = JsonResponse({"ready": not found, **told}, status=status)
    answer._has_been_logged = True  # type: ignore[attr-defined]  # a probe is no failure of the server
    return answer


def is_local(request: HttpRequest) -> bool:
    """Whether the caller is on this machine itself, not merely behind a proxy on it."""
    if any(header in request.headers for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP")):
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def may_read(request: HttpRequest) -> bool:
    """Whether a token came along that may read in the API: its scope, and for a person's the role too."""
    caller = Bearer()(request)
    return isinstance(caller, Caller) and caller.may("view")
