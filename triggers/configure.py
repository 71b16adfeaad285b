"""What a source or a trigger must be before it is saved; the API and the forms ask the same two functions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, models, transaction
from pydantic import ValidationError

from project.lib import clock, crypto
from project.lib.faults import first_fault
from project.lib.live import changed
from project.lib.problem import Problem
from triggers import fire, rates, registry
from triggers.envelope import INNER
from triggers.errors import BadFilter, NotValid, NotYet, SlugTaken, Stale
from triggers.limits import read_limits
from triggers.matching import compile_filter, compile_pattern
from triggers.models import Audit, ConfigVersion, Source, Trigger
from triggers.silence import switched
from triggers.sources.custom import parse_custom
from triggers.sources.database import checked_table
from triggers.sources.details import check_secret, checked_details, refuse_short_memory, refuse_unnamed, says_who
from triggers.sources.file import checked_watch
from triggers.sources.kafka import checked_topics
from triggers.sources.mail import checked_mailbox
from triggers.sources.schedule import checked_schedule, parse_schedule, same_schedule
from triggers.sources.scheme import Scheme
from triggers.sources.stream import checked_stream
from triggers.sources.verify import catalogue

if TYPE_CHECKING:
    from project.people.models import User

CHECKED: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {  # the config as it is saved, of each kind
    "file": checked_watch,
    "email": checked_mailbox,
    "redis_stream": checked_stream,
    "kafka": checked_topics,
    "database": checked_table,
    "schedule": checked_schedule,
}
NAME_THEIR_TYPES = ("cloudevents", "redis_stream", "kafka")  # what comes may be CloudEvents, with types of their own
OF_THE_API = ("fit", "preview")  # POST /sources/fit: a source of that name could not be asked for
OWN_ADDRESSES = ("new",)  # the address of the empty form: a row of that name would hide its own page
PUBLISHED = "published"  # the source of what actions publish: events from elsewhere do not come under its name
WEEK = 7 * 86400  # seconds a repeat is known where nobody said how long
MOST_SECRETS = 2  # valid at once, so that a secret is changed without losing a delivery
SHORTEST_SECRET = 8  # characters
WHERE = ("host", "port", "url", "brokers", "security", "tls", "mechanism", "username")  # of a source's config
ONE_AT_A_TIME = {"limit": 1, "when_busy": "skip", "waiting_counts": True}


def make_source(*, by: "User | None", slug: str, **fields: Any) -> Source:
    """Save a new source. Raises NotValid, NotYet, SlugTaken."""
    source = unsaved_source(slug, **fields)
    with transaction.atomic():
        save_source(source, by=by)
    return source


def unsaved_source(slug: str, **fields: Any) -> Source:
    """A row that may be saved. Raises NotValid, NotYet."""
    if slug == PUBLISHED and fields.get("kind") != "cloudevents":
        words = (
            f"`{PUBLISHED}` is kept for events that actions publish, a source of kind `cloudevents`; choose another."
        )
        raise NotValid(words, field="slug")
    if slug in OF_THE_API:
        raise NotValid(f"`{slug}` is an address of the API; choose another.", field="slug")
    fields = checked_source(fields, slug=slug)
    refuse_nameless(fields)
    if fields["kind"] == "schedule":
        refuse_past(fields["config"])
    secrets = fields.pop("secrets", None)
    return Source(slug=slug, sealed_secrets=crypto.seal(secrets), **fields)


def save_source(source: Source, *, by: "User | None") -> None:
    """Inside the caller's transaction. Raises SlugTaken, NotValid."""
    insert_named(source)
    ConfigVersion.bump()
    Audit.write("create", source, by=by)
    changed("sources", id=source.slug)


def insert_named(row: models.Model) -> None:
    """Insert a row that is known by its slug; of two at once the second is told. Raises SlugTaken, NotValid."""
    slug = str(getattr(row, "slug", ""))
    refuse_own(slug)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        refuse_taken(type(row), slug)
        raise


def refuse_taken(model: type[models.Model], slug: str) -> None:
    """Raises SlugTaken for the slug of a row, also of an archived one, NotValid for an address of the desk itself."""
    refuse_own(slug)
    if model._default_manager.filter(slug=slug).exists():
        raise SlugTaken(slug=slug)


def refuse_own(slug: str) -> None:
    if slug in OWN_ADDRESSES:
        raise NotValid(f"`{slug}` is taken by the desk itself; choose another.", field="slug")


def change_source(source: Source, *, by: "User | None", version: int, **fields: Any) -> Source:
    """Write `fields` when `version` is still the row's. Raises Stale, NotValid, NotYet.

    All is checked before BEGIN, on `source` as it was read: one that changed since has another version."""
    refuse_stale(source.version, version)
    given = {"kind": source.kind, "provider": source.provider, "config": source.config}
    if fields.get("provider", source.provider) != source.provider:
        given |= {"dedupe_window": source.dedupe_window, "secrets": source.secrets}  # they must suit the new one, too
    complete = checked_source(given | fields, slug=source.slug)
    told = {"actor": source.actor, **complete}
    if told["actor"] != source.actor or says_who(source.kind, source.provider, source.config):
        refuse_nameless(told)  # else it is as it was: nobody reads it, and it is in nobody's way
    written = {name: complete[name] for name in fields if not is_as_before(source, name, complete[name])}
    if source.kind == "schedule" and "config" in written:
        refuse_past(written["config"])
    with transaction.atomic():
        held = Source.objects.select_for_update(no_key=True).get(pk=source.pk)
        refuse_stale(held.version, version)
        was_on = held.enabled
        held.change(by=by, **written, **fire.replan(held, written))
        if held.enabled != was_on:
            switched(held, by=by)
        changed("sources", id=held.slug)
    return held


def is_as_before(source: Source, name: str, value: Any) -> bool:
    """Whether it is left alone: a schedule that stays on, and what it was, keeps its next slot."""
    if name == "config" and source.kind == "schedule":
        return same_schedule(source.config, value)
    return name in ("config", "enabled") and getattr(source, name) == value


def leads_elsewhere(source: Source, config: Mapping[str, Any] | None) -> bool:
    """Whether a password that is kept would be sent to another place, or less well hidden, than it was given for."""
    if config is None or not (source.is_listened and source.sealed_secrets):
        return False
    return any(config.get(name) != source.config.get(name) for name in WHERE)


def checked_source(fields: dict[str, Any], *, slug: str) -> dict[str, Any]:
    kind = fields.get("kind")
    if kind is None or kind not in Source.KINDS:
        raise NotYet(f"Sources of kind `{kind}` are not built yet; there are {', '.join(Source.KINDS)}.", field="kind")
    if check := CHECKED.get(kind):
        fields["config"] = check(fields.get("config") or {})
    if fields.get("idempotency_key"):
        named("idempotency_key", compile_filter, fields["idempotency_key"])
    check_secrets(fields.get("secrets") or [], field="secrets", kind=kind)
    if kind in Source.CHATS:
        fields["provider"] = kind
    provider = fields.get("provider") or ""
    if kind in Source.DOORS and kind != "cloudevents":
        fields["config"] = checked_scheme(provider, fields.get("config") or {})
        if fields.get("dedupe_window") is None and "dedupe_window" in catalogue().get(provider, {}):
            fields["dedupe_window"] = catalogue()[provider]["dedupe_window"]
        refuse_short_memory(provider, fields.get("dedupe_window") or WEEK)
        for secret in fields.get("secrets") or []:
            check_secret(provider, secret["value"], field="secrets")
    if fields.get("dedupe_window") is None:
        fields["dedupe_window"] = WEEK
    if fields.get("on_overload") is None:
        fields["on_overload"] = catalogue().get(provider, Scheme()).get("on_overload", "refuse")
    if fields["on_overload"] == "accept" and kind not in Source.DOORS:
        words = "on_overload: only of a source that is rung; where the desk itself reads or fires, it waits by itself."
        raise NotValid(words, field="on_overload")
    fields.setdefault("name", slug)
    fields["types"] = [
        named("types", compile_pattern, text) for text in fields.get("types") or default_types(fields, slug)
    ]
    return fields


def checked_scheme(provider: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a source with an address: its scheme when that is `custom`, else what its provider lets it say.

    Raises NotValid."""
    if provider == "custom":
        return parse_custom(config).model_dump(exclude_defaults=True)
    if provider not in catalogue():
        known = sorted([*catalogue(), "custom"])
        raise NotValid(f"Nightdesk knows no provider `{provider}`.", field="provider", known=known)
    return checked_details(provider, config)


def refuse_nameless(fields: Mapping[str, Any]) -> None:
    """Raises NotValid for a name of the desk that no delivery would ever tell."""
    if fields.get("actor"):
        refuse_unnamed(fields["kind"], fields.get("provider") or "", fields.get("config") or {})


def refuse_past(config: Mapping[str, Any]) -> None:
    """Raises NotValid for a schedule that never rings from now on."""
    if parse_schedule(config).next_after(clock.now()) is None:
        raise NotValid("at: this time has passed; it would never ring.", field="at")


def check_secrets(secrets: list[dict[str, Any]], *, field: str, kind: str) -> None:
    """`[{value, ends_at?}]` as the page or the API was given them, for a source of this kind. Raises NotValid."""
    least = 1 if kind in Source.LISTENED else SHORTEST_SECRET  # a password of elsewhere is as long as it is
    if len(secrets) > MOST_SECRETS:
        raise NotValid(f"A source has at most {MOST_SECRETS} secrets at a time.", field=field)
    if any(len(item["value"]) < least for item in secrets):
        raise NotValid(f"A secret has at least {least} characters.", field=field)


def default_types(fields: Mapping[str, Any], slug: str) -> list[str]:
    provider = str(fields.get("provider") or "")
    return [
        "**"
        if provider in ("generic", "custom", "none") or fields["kind"] in NAME_THEIR_TYPES
        else f"{provider or slug}.**"
    ]


def make_trigger(*, by: "User | None", slug: str, new_source: dict[str, Any] | None = None, **fields: Any) -> Trigger:
    """Save a new trigger, and with it the source it listens to: both or neither.

    Raises NotValid, BadFilter, NotYet, SlugTaken; what is refused of the source says so by `of="source"`."""
    made = source_of(new_source)
    fields = checked_trigger(fields, made)
    fields.setdefault("name", slug)
    with transaction.atomic():
        save_made(made, by=by)
        trigger = Trigger(slug=slug, owner=by, changed_by=by, **fields)
        insert_named(trigger)
        trigger.note_version(by=by)
        ConfigVersion.bump()
        Audit.write("create", trigger, by=by)
        changed("triggers", id=slug)
    return trigger


def change_trigger(
    trigger: Trigger, *, by: "User | None", version: int, new_source: dict[str, Any] | None = None, **fields: Any
) -> Trigger:
    """Write `fields` when `version` is still the row's, and make the source it listens to from now on: both or neither.

    Raises Stale, NotValid, BadFilter, NotYet, SlugTaken. All is checked before BEGIN, on `trigger` as it was read."""
    refuse_stale(trigger.version, version)
    made = source_of(new_source)
    before = {"source": trigger.source, "handler": trigger.handler, "config": trigger.config}
    complete = checked_trigger({**before, "limits": trigger.limits, **fields}, made)
    written = {*fields, "filter_plan"} if "filter" in fields else set(fields)
    with transaction.atomic():
        held = Trigger.objects.select_for_update(of=("self",), no_key=True).get(pk=trigger.pk)
        refuse_stale(held.version, version)
        save_made(made, by=by)
        rate = held.flow.rate_limit
        held.change(by=by, **{name: complete[name] for name in written})
        if "limits" in written:
            rates.plan_anew(held, before=rate)
        changed("triggers", id=held.slug)
    return held


@contextmanager
def of_its_source() -> Iterator[None]:
    """What is refused of the source that a trigger is saved with names it, so that the page blames the right form."""
    try:
        yield
    except Problem as refused:
        refused.facts["of"] = "source"
        raise


def source_of(fields: dict[str, Any] | None) -> Source | None:
    if fields is None:
        return None
    with of_its_source():
        return unsaved_source(**fields)


def save_made(source: Source | None, *, by: "User | None") -> None:
    if source is not None:
        with of_its_source():
            save_source(source, by=by)


def checked_trigger(fields: dict[str, Any], made: Source | None = None) -> dict[str, Any]:
    """The fields as the row has them; `made` is a source that is saved with it."""
    is_made = made is not None and made.slug == fields["source"]
    source = made if is_made else Source.objects.kept().filter(slug=fields["source"]).first()
    if source is None and fields["source"] not in (*INNER, "*"):
        raise NotValid(f"There is no source `{fields['source']}`.", field="source")
    if "type_pattern" in fields:
        fields["type_pattern"] = named("type_pattern", compile_pattern, fields["type_pattern"])
    if "filter" in fields:
        plan = named("filter", compile_filter, fields["filter"])
        fields["filter_plan"], fields["filter"] = plan if plan["clauses"] else None, plan["text"]
    check_handler(fields["handler"], fields.get("config") or {})
    given = fields.get("limits") or {}
    alone = {"concurrency": ONE_AT_A_TIME} if source is not None and source.kind == "schedule" else {}
    fields["limits"] = read_limits({**alone, **given})  # null lifts what a schedule has from the start
    return fields


def check_handler(name: str, config: dict[str, Any]) -> None:
    handler = registry.HANDLERS.get(name)
    if handler is None:
        raise NotValid(f"No code is registered as handler `{name}`.", field="handler", known=sorted(registry.HANDLERS))
    if handler.config is None:
        return
    try:
        handler.config.model_validate(config)
    except ValidationError as error:
        place, said = first_fault(error)
        raise NotValid(f"{place}: {said}" if place else said, field="config") from error


def named(field: str, check: Any, value: Any) -> Any:
    """`check(value)`, with the name of the field in the refusal."""
    try:
        return check(value)
    except BadFilter as refused:
        raise BadFilter(refused.detail, field=field) from refused


def refuse_stale(now: int, read: int) -> None:
    if now != read:
        raise Stale(version=now)
