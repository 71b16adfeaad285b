"""Is this desk ready for production? Each question by its name, with what is wrong and what to do about it.

`manage.py check --deploy` asks them once; `/settings/checks` asks them again at every look, with those about the
running desk (project/checks_live.py). docs/production.md lists them."""

import stat
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core import checks
from django.db import DatabaseError

from project import health
from project.lib.mounts import file_system, is_networked
from project.people.models import User

LEVELS = {"error": checks.Error, "warning": checks.Warning, "info": checks.Info}
OTHERS_READ, OTHERS_WRITE = stat.S_IRWXG | stat.S_IRWXO, stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Question:
    """`ask` returns what is wrong, or an empty text; `hint` is what to do then, on the `page` of this name if any."""

    id: str
    words: str
    hint: str
    ask: Callable[[], str]
    page: str = ""

    @property
    def tone(self) -> str:
        """How bad it is when something is wrong: error, warning or info."""
        return {"E": "error", "W": "warning", "I": "info"}[self.id.partition(".")[2][0]]

    def answer(self) -> str:
        """What is wrong, also when the question itself cannot be asked."""
        try:
            return self.ask()
        except (DatabaseError, redis.RedisError, OSError) as error:
            return f"this could not be asked: {str(error).strip() or type(error).__name__}"


DEPLOY: list[Question] = []


def question(id: str, words: str, hint: str, page: str = "") -> Callable[[Callable[[], str]], Callable[[], str]]:
    """The function below answers this question before the desk goes into production."""

    def add(ask: Callable[[], str]) -> Callable[[], str]:
        DEPLOY.append(Question(f"nightdesk.{id}", words, hint, ask, page))
        return ask

    return add


@question("E001", "Does it answer to its own names only?", "Set ALLOWED_HOSTS to the names people use.")
def names() -> str:
    return "ALLOWED_HOSTS is *: any name is believed" if "*" in settings.ALLOWED_HOSTS else ""


@question("E002", "Do people reach it by TLS?", "Put a proxy with TLS in front, and set BASE_URL to its https address.")
def encrypted() -> str:
    return "" if settings.BASE_URL.startswith("https://") else f"BASE_URL is {settings.BASE_URL}"


@question("E003", "Is the database on a local disk?", "Keep SQLite on a local disk, or set DATABASE_URL to PostgreSQL.")
def local_disk() -> str:
    if not health.is_sqlite():
        return ""
    kind = file_system(Path(str(settings.DATABASES["default"]["NAME"])))
    return f"SQLite stands on {kind}, which loses locks" if is_networked(kind) else ""


@question("E004", "Can nobody else read the keys?", "chmod 600 the .key files, chmod 700 DATA_DIR.")
def keys() -> str:
    files = [path for name in ("secret.key", "field.key") if (path := settings.DATA_DIR / name).exists()]
    open_to_all = [path.name for path in files if path.stat().st_mode & OTHERS_READ]
    return f"{', '.join(open_to_all)} can be read by others" if open_to_all else ""


@question(
    "E005", "Can nobody else write handlers?", "chmod go-w HANDLERS_DIR and what is in it: it is code the desk runs."
)
def handlers() -> str:
    folder = settings.HANDLERS_DIR
    found = [folder, *folder.glob("*.py")] if folder.exists() else []
    loose = [path.name for path in found if path.stat().st_mode & OTHERS_WRITE]
    return f"Others may write {', '.join(loose[:5])}" if loose else ""


@question("E006", "Is the printed password changed?", "Sign in as that person and choose a password.")
def password() -> str:
    waiting = User.objects.filter(must_change_password=True, is_active=True).values_list("username", flat=True)[:5]
    return f"{', '.join(waiting)} still has the password that was printed" if waiting else ""


@question("E007", "Is the database at this code's migrations?", "Run manage.py migrate, or let `up` do it.")
def migrated() -> str:
    return health.database()


@question("E008", "Are only our own proxies believed?", "Set TRUSTED_PROXIES to the addresses of your proxies.")
def proxies() -> str:
    wide = [one for one in settings.TRUSTED_PROXIES if ip_network(one, strict=False).prefixlen == 0]
    if wide:
        return f"{wide[0]} in TRUSTED_PROXIES lets every sender choose the address he seems to come from"
    if settings.BASE_URL.startswith("https://") and not settings.TRUSTED_PROXIES:
        return "BASE_URL is https, so a proxy stands in front, but TRUSTED_PROXIES names none"
    return ""


@question(
    "W001",
    "Does the badge say where one is?",
    "Set ENVIRONMENT=production, so that nobody mistakes one desk for another.",
)
def badge() -> str:
    return "ENVIRONMENT is dev" if settings.ENVIRONMENT == "dev" else ""


@question("W002", "Do alarms reach a person?", "Set NOTIFY_URLS to a chat, a mailbox or a phone of yours.")
def alarms() -> str:
    return "" if settings.NOTIFY_URLS else "NOTIFY_URLS is empty: alarms are shown on the practice page only"


@question(
    "W003",
    "Is there a second person?",
    "Invite another reviewer: tier high needs one who did not ask.",
    page="admin:people_user_changelist",
)
def second_person() -> str:
    people = User.objects.filter(is_active=True, groups__name="reviewer").distinct()[:2].count()
    return "" if people > 1 else f"{'Only one person' if people else 'Nobody'} may decide"


@question(
    "W004",
    "Does the broker keep what it is given?",
    "Set maxmemory-policy noeviction: a full broker must refuse, not forget.",
)
def broker() -> str:
    if settings.REDIS.ours:
        return ""
    with health.valkey() as client:
        try:
            policy = client.config_get("maxmemory-policy").get("maxmemory-policy", "noeviction")
        except redis.ResponseError:
            return ""  # a managed server that does not tell; lost bells are repaired by the tick
    return "" if policy == "noeviction" else f"its maxmemory-policy is {policy}"


@question(
    "I001",
    "Is it backed up?",
    "The database is everything, and FIELD_KEY opens its secrets: back up both, and try to restore.",
)
def backup() -> str:
    place = "the file of SQLite" if health.is_sqlite() else "PostgreSQL"
    kept = [name for name in ("secret.key", "field.key") if (settings.DATA_DIR / name).exists()]
    return f"Only you can know; it is {place}{' and ' + ', '.join(kept) if kept else ''}"


def deploy(app_configs: Any = None, **_: Any) -> list[checks.CheckMessage]:
    """What `manage.py check --deploy` says."""
    told = [(one, one.answer()) for one in DEPLOY]
    return [
        LEVELS[one.tone](f"{one.words} {wrong[0].upper()}{wrong[1:]}.", hint=one.hint, id=one.id)
        for one, wrong in told
        if wrong
    ]


def announce() -> None:
    """Let Django know; called once when the apps are ready."""
    checks.register(deploy, checks.Tags.security, deploy=True)
