"""Send real, correctly signed sample deliveries, as the far side would; a file sample is put into its folder."""

import base64
import fcntl
import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from django.conf import settings
from django.db.models import Max

from project import signing, tour
from project.lib import tester
from project.lib.crypto import Unreadable
from project.processes import PLAN
from project.provider_bodies import SAMPLES
from project.sample_bodies import Sample
from project.sample_entries import ENTRIES, NotWritten, newest_of, write
from triggers import configure
from triggers.models import Event, Source, Watch
from triggers.sources.details import scheme_of
from triggers.sources.verify import catalogue

__all__ = ["ENTRIES", "SAMPLES", "NotSent", "Sent", "send"]

TIMEOUT = 20.0  # seconds for the whole delivery
UNNAMED = ("custom", "none")  # whoever sends there gives the source a name of its own


class NotSent(Exception):
    """The delivery could not be made or was not taken; the message says why in one line."""


@dataclass(frozen=True)
class Sent:
    """What the desk answered."""

    status: str  # accepted, duplicate, handshake
    seq: int | None
    link: str


def send(name: str, base_url: str = "", *, again: bool = False, make: bool = False, by: int = 0) -> Sent:
    """Send the sample `name` to the desk at `base_url` (default: this machine's). `again` repeats its last body and
    id byte for byte; `make` makes the source it goes to, where there is none; `by` is the id of whoever asks for it
    (of the door only). Raises NotSent."""
    if name in ENTRIES:
        return written(name, base_url, again=again)
    sample = SAMPLES.get(name)
    if sample is None:
        raise NotSent(f"there is no sample {name!r}; there are: {', '.join([*SAMPLES, *ENTRIES])}")
    source = source_for(sample, make=make)
    headers, body, seq = recall(name) if again else (*prepare(sample), None)
    remember(name, headers, body, seq)
    if source.kind == "file":
        if base_url:
            raise NotSent("a file is put into a folder of this machine; leave --url out")
        sent = put(source, headers["File-Name"], body, again=again)
    else:
        sent = send_signed(source, headers, body, base_url, by=by, first=seq)
    remember(name, headers, body, sent.seq)
    return sent


def send_signed(
    source: Source, headers: dict[str, str], body: bytes, base_url: str = "", *, by: int = 0, first: int | None = None
) -> Sent:
    """Sign it with the secret of `source` and send it to its address; `first` is the event it became when it was sent
    before. Raises NotSent."""
    url = f"{base_url.rstrip('/') or own_address()}/hooks/{source.slug}"
    try:
        proved = signing.signed(source, headers, body, folder(), time.time(), base=link_base())
    except signing.CannotSign as refusal:
        raise NotSent(f"{source.slug}: {refusal}") from refusal
    told = tester.header_of(by) if by else {}
    newest = newest_of(source)
    answer = post(f"{url}?{proved.query}" if proved.query else url, {**proved.headers, **told}, proved.body)
    if answer.status_code == 200 and "replies" in scheme_of(source):
        return found(source, newest, first) if is_here(base_url) else Sent("answered in its provider's words", None, "")
    return read(answer, base_url)


def found(source: Source, newest: int, first: int | None) -> Sent:
    """What became of a delivery whose provider hears nothing of it: what came after `newest`, else it was a repeat."""
    event = source.events.filter(pk__gt=newest).order_by("pk").first()
    if event is not None:
        return Sent("accepted", event.pk, link_to(event))
    known = source.events.filter(pk=first).first() if first else None
    return Sent("duplicate", known.pk if known else None, link_to(known) if known else "")


def is_here(base_url: str) -> bool:
    """Whether that address is this machine's own desk."""
    return not base_url or base_url.rstrip("/") in (own_address(), link_base().rstrip("/"))


def written(name: str, base_url: str, *, again: bool) -> Sent:
    """Write an entry where this desk listens."""
    if base_url or again:
        raise NotSent("it is written where this machine's desk listens, anew each time; leave --url and --again out")
    try:
        event = write(name, next_number())
    except NotWritten as refusal:
        raise NotSent(str(refusal)) from refusal
    return Sent("accepted", event.pk, link_to(event))


def prepare(sample: Sample) -> tuple[dict[str, str], bytes]:
    """Fresh headers and the exact bytes of the body."""
    headers, value = sample.make(next_number())
    body = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {"Content-Type": "application/json"} | headers, body.encode()


def source_for(sample: Sample, *, make: bool) -> Source:
    """The source this sample goes to; with `make` it is made when there is none of that name. Raises NotSent."""
    name = sample.source
    source = Source.objects.filter(slug=name).first()
    if source is None and name in UNNAMED and not make:
        source = Source.objects.open().filter(kind="webhook", provider=name).order_by("pk").first()
    if source is None:
        return made_for(name, make=make)
    if source.archived_at is not None:
        raise NotSent(f"the source {name!r} is archived, and its short name stays taken")
    try:
        if source.kind == "file" or source.provider == "none" or source.secrets:
            return source
    except Unreadable as error:
        raise NotSent(error.detail) from error
    raise NotSent(f"the source {source.slug!r} has no secret yet; give it one on its page")


def made_for(name: str, *, make: bool) -> Source:
    """A source this machine can sign for, of the provider of that name. Raises NotSent."""
    tours = "; manage.py seed_tour adds what is missing of the tour" if name in tour.SOURCES else ""
    if name not in (*catalogue(), *UNNAMED):
        raise NotSent(f"this desk has no source {name!r}{tours}")
    if not make:
        raise NotSent(f"this desk has no source {name!r}; to make one and ring it: manage.py ring NAME --make{tours}")
    secret, config = signing.made_secret(name, folder())
    chat = name in Source.CHATS
    return configure.make_source(
        by=None,
        slug=name,
        kind=name if chat else "webhook",
        provider=name,
        config=config,
        secrets=[{"value": secret}] if secret else [],
    )


def put(source: Source, name: str, body: bytes, *, again: bool) -> Sent:
    """Put a file into the watched folder, and wait until the desk tells of it. Raises NotSent."""
    newest = Event.objects.aggregate(newest=Max("id"))["newest"] or 0
    told = Event.objects.filter(source=source, subject=name).order_by("-pk")
    place = lay(source, name, body)
    if again and (first := told.first()):
        return Sent("the same file again, nothing to tell", first.pk, link_to(first))
    deadline = time.monotonic() + TIMEOUT
    while (event := told.filter(pk__gt=newest).first()) is None:
        if time.monotonic() > deadline:
            raise NotSent(f"{place} is there, and nobody has told of it for {TIMEOUT:.0f} s")
        time.sleep(0.2)
    return Sent("accepted", event.pk, link_to(event))


def lay(source: Source, name: str, body: bytes) -> Path:
    """Put a file into the watched folder, whole at once. Raises NotSent where nobody watches."""
    watch = Watch.objects.filter(source=source).first()
    if watch is None or not watch.is_kept or watch.status != Watch.WATCHING:
        why = f": {watch.detail}" if watch and watch.detail else "; start the desk with: make up"
        raise NotSent(f"nobody watches {source.config['path']} right now{why}")
    place = Path(source.config["path"]) / name
    draft = place.with_name(f".{name}.draft")
    try:
        draft.write_bytes(body)
        draft.replace(place)
    except OSError as error:
        raise NotSent(f"{place} cannot be written: {error.strerror}") from error
    return place


def link_to(event: Event) -> str:
    return f"{link_base()}/events/{event.pk}"


def post(url: str, headers: dict[str, str], body: bytes) -> httpx.Response:
    try:
        return httpx.post(url, content=body, headers=headers, timeout=TIMEOUT, trust_env=False)
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise NotSent(
            f"no desk answers at {url}; start it with: make up (one on another port: PORT=… make ring)"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NotSent(f"{url}: {error or type(error).__name__}") from error


def read(answer: httpx.Response, base_url: str) -> Sent:
    """The desk's answer, or NotSent with its status and text."""
    if answer.status_code not in (200, 202):
        raise NotSent(f"the desk refused it: {answer.status_code} {answer.text[:300]}".strip())
    try:
        told = answer.json()
    except ValueError as error:
        raise NotSent(f"no Nightdesk answers at {answer.request.url}") from error
    seq = told.get("seq")
    link = f"{base_url.rstrip('/') or link_base()}{told['event']}" if told.get("event") else ""
    return Sent(told.get("status", ""), seq, link)


def own_address() -> str:
    """How this machine reaches its own desk; BASE_URL may lead around the world and through a proxy.

    The desk that `up` started here is asked first: it may have got another PORT than this shell."""
    return running_address() or set_address()


def running_address() -> str:
    """Where the web process of the last `up` listens; empty when nobody answers there (any more)."""
    try:
        plan = json.loads((settings.DATA_DIR / PLAN).read_text())
        ready = next(child["ready"] for child in plan["children"] if child["name"] == "web")
        host, port = ready.removeprefix("tcp:").rsplit(":", 1)
        socket.create_connection((host, int(port)), timeout=1).close()
    except (OSError, ValueError, LookupError, StopIteration):
        return ""
    return address(host, port)


def link_base() -> str:
    """What a printed link begins with: BASE_URL, unless the desk that runs here got another PORT than this shell."""
    running = running_address()
    return running if running and running != set_address() else settings.BASE_URL


def set_address() -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.HOST, settings.HOST)
    return address(host, settings.PORT)


def address(host: str, port: int | str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def next_number() -> int:
    """A number no sample of this desk had before: larger than the last one here, and than any event's."""
    with (folder() / "number").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        newest = Event.objects.aggregate(newest=Max("id"))["newest"] or 0
        number = max(int(file.read() or 0), 100 + newest) + 1
        file.truncate(0)
        file.write(str(number))
    return number


def folder() -> Path:
    """Where this machine remembers what it rang."""
    place: Path = settings.DATA_DIR / "rung"
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def remember(name: str, headers: dict[str, str], body: bytes, seq: int | None) -> None:
    kept = {"headers": headers, "body": base64.b64encode(body).decode(), "seq": seq}
    (folder() / f"{name}.json").write_text(json.dumps(kept))


def recall(name: str) -> tuple[dict[str, str], bytes, int | None]:
    """What was sent last, and the number of the event it became here, where that is known. Raises NotSent."""
    try:
        kept = json.loads((folder() / f"{name}.json").read_text())
    except FileNotFoundError as error:
        raise NotSent(f"{name} was not sent from here yet, so it cannot be sent again") from error
    return kept["headers"], base64.b64decode(kept["body"]), kept.get("seq")
