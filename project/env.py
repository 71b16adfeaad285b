"""Read the environment: typed, with a default, failing in one clear line. Only project/settings.py asks."""

import os
import re
import secrets
import shlex
from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from cryptography.fernet import Fernet
from django.conf.global_settings import LANGUAGES
from django.conf.locale import LANG_INFO

HOST_AND_PORT = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[\w-]+(?:\.[\w-]+)*\.?))(?::(?P<port>[0-9]{1,5}))?")
NUMBERS = re.compile(r"[0-9.]+")


class BadSetting(SystemExit):
    """A value in the environment makes no sense; the start stops with one line and no traceback."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"nightdesk: {name} {problem}")


def text(name: str, default: str = "") -> str:
    """The value of `name`, or the content of the file that `NAME_FILE` names, or `default`."""
    path = os.environ.get(f"{name}_FILE", "").strip()
    value = os.environ.get(name, "").strip()
    if path and value:
        raise BadSetting(name, f"and {name}_FILE are both set; keep one")
    if not path:
        return value or default
    try:
        return Path(path).read_text().strip() or default
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{name}_FILE", f"cannot be read: {error}") from error


def integer(name: str, default: int, *, at_least: int = 0, at_most: int = 2**53) -> int:
    """A whole number between `at_least` and `at_most`."""
    value = text(name, str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 20) or not at_least <= int(value) <= at_most:
        limits = f"of at least {at_least}" if at_most == 2**53 else f"from {at_least} to {at_most}"
        raise BadSetting(name, f"must be a whole number {limits}, not {value!r}")
    return int(value)


def seconds(name: str, default: float) -> float:
    """A duration in seconds, over zero."""
    value = text(name, str(default))
    try:
        number = float(value)
    except ValueError:
        number = 0
    if not 0 < number < 86400:
        raise BadSetting(name, f"must be a number of seconds, not {value!r}")
    return number


def one_of(name: str, *choices: str) -> str:
    """One of these words, in lower case; the first is the default."""
    value = text(name, choices[0]).lower()
    if value not in choices:
        raise BadSetting(name, f"must be one of {', '.join(filter(None, choices))}, not {value!r}")
    return value


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list without empty entries."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def folder(name: str, default: str) -> Path:
    """An absolute folder that exists afterwards (mode 0700 when it is made here) and can be written to."""
    path = Path(text(name, default)).expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadSetting(name, f"cannot be made: {error}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise BadSetting(name, f"is not writable: {path}")
    return path


def web_address(name: str, default: str) -> str:
    """An `http(s)://host[:port]` address without a trailing slash; empty only where that is the default."""
    value = text(name, default).rstrip("/")
    if value == default == "":
        return value
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise BadSetting(name, f"must be an address like https://desk.example.org, not {value!r}")
    return value


def mail_server(name: str) -> str:
    """`smtp://user:password@host:587`, `smtps://…`, or nothing."""
    value = text(name)
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("smtp", "smtps", "smtp+none") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if value and not fits:
        raise BadSetting(name, "must be an address like smtp://user:password@mail.example.org:587")
    return value


def networks(name: str) -> list[str]:
    """Addresses and CIDR networks, comma-separated."""
    for word in (entries := words(name)):
        try:
            ip_network(word, strict=False)
        except ValueError as error:
            raise BadSetting(name, f"must list addresses or networks like 10.0.0.0/8: {error}") from error
    return entries


def reachable(name: str) -> list[str]:
    """Hosts, `host:port`, addresses, `[v6]:port` and CIDR networks, comma-separated."""
    for word in (entries := words(name)):
        if not (is_network(word) or is_host(word)):
            raise BadSetting(name, f"must list hosts, host:port or networks like 10.0.0.0/8, not {word!r}")
    return entries


def commands(name: str) -> dict[str, str]:
    """`name=command with its arguments`, several apart by semicolons: what may be started by its name."""
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text(name).split(";"))):
        own, equals, command = (word.strip() for word in part.partition("="))
        try:
            parts = shlex.split(command)
        except ValueError:
            parts = []
        if not equals or not own.isidentifier() or not parts:
            raise BadSetting(name, f"must list name=command, apart by semicolons, not {part!r}")
        found[own] = command
    return found


def is_network(word: str) -> bool:
    try:
        ip_network(word, strict=False)
    except ValueError:
        return False
    return True


def is_host(word: str) -> bool:
    """A name that is no mistyped address, or an address in brackets, each perhaps with a port."""
    found = HOST_AND_PORT.fullmatch(word)
    if not found or not 0 < int(found["port"] or 1) <= 65535:
        return False
    return is_network(found["v6"]) if found["v6"] else is_network(found["name"]) or not NUMBERS.fullmatch(found["name"])


def addresses(name: str) -> list[str]:
    """A list of `scheme://…` addresses; Apprise separates several by comma or blank."""
    for word in (entries := text(name).replace(",", " ").split()):
        if "://" not in word:
            raise BadSetting(name, "must list addresses like mailtos://user:password@example.org")
    return entries


def time_zone(name: str) -> str:
    """An IANA zone name, UTC by default."""
    value = text(name, "UTC")
    if value not in available_timezones():
        raise BadSetting(name, f"must be a zone like Europe/Berlin, not {value!r}")
    return value


def language(name: str, spoken: Iterable[str]) -> str:
    """The first of the languages in `name` that the desk speaks, else English. `zh_CN:zh`, as GNU gettext writes the
    same variable, reads as `zh-hans`; what is no language at all is refused."""
    codes = [word.partition(".")[0].replace("_", "-").lower() for word in text(name, "en").split(":")]
    wishes: list[str] = [wish for code in codes for wish in (code, *LANG_INFO.get(code, {}).get("fallback", ()))]
    for wish in wishes:
        if wish in spoken:
            return wish
    known = {"c", "posix"} | {part for code, _ in LANGUAGES for part in (code, code.partition("-")[0])}
    if any(code.partition("-")[0] in known for code in codes):
        return "en"
    raise BadSetting(name, f"must be a language like en or zh-hans, not {text(name)!r}")


def kept_secret(name: str, path: Path) -> str:
    """The value of `name`, else of the file at `path`, made on the first start (mode 0600)."""
    return text(name) or kept(path, secrets.token_urlsafe(50))


def field_keys(name: str, path: Path) -> str:
    """Fernet keys, comma-separated, the newest first; else the one in the file at `path`, made on the first start."""
    value = text(name) or kept(path, Fernet.generate_key().decode())
    for key in value.split(","):
        try:
            Fernet(key.strip())
        except ValueError as error:
            raise BadSetting(name, "must hold keys of 32 bytes, written in URL-safe base64") from error
    return value


def kept(path: Path, fresh: str) -> str:
    """The text in the file at `path`; `fresh` is put there when it does not exist. Safe against a twin start."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(fresh)
        try:
            os.link(draft, path)  # atomic, and refuses to replace the file of a faster process
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(str(path), f"cannot be read: {error}") from error
