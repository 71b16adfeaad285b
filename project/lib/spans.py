"""OpenTelemetry spans from door to effect: one trace a story, also over a wait of days and many processes.

Nothing is handed from process to process but what the rows hold: an event's `traceparent`, or its number, gives the
trace and the place of its span in it, so a run that goes on after a week continues where it was. Without
OTEL_EXPORTER_OTLP_ENDPOINT no span is made and the SDK is not even loaded. Names and numbers are told, never payloads,
arguments, or the words of an error."""

import hashlib
import hmac
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol

from django.conf import settings
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if settings.OTEL_EXPORTER_OTLP_ENDPOINT:  # 15 MB for each process that nobody pays who does not want it
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

FLUSH = 2000  # milliseconds a process that ends may take to send its last spans
W3C = TraceContextTextMapPropagator()
Ids = tuple[int, int]  # of a trace and a span
planned: ContextVar[Ids | None] = ContextVar("planned", default=None)


class Origin(Protocol):
    """What begins a story: an event's row."""

    pk: Any
    traceparent: str


class Place:
    """Where this process sends its spans; None: nowhere."""

    tracer: trace.Tracer | None = None
    provider: Any = None


class PlannedIds:
    """Random ids, but for an event's own span, whose ids everybody can work out."""

    def generate_span_id(self) -> int:
        ids = planned.get()
        return ids[1] if ids else random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        ids = planned.get()
        return ids[0] if ids else random.getrandbits(128) or 1

    def is_trace_id_random(self) -> bool:
        return planned.get() is None


def send_to(provider: Any) -> None:
    """Make spans from now on, by this SDK provider (with `PlannedIds`); None: no more."""
    Place.provider = provider
    Place.tracer = provider.get_tracer("nightdesk") if provider else None


def close() -> None:
    """Send what is left: pool workers end without Python's own farewell."""
    if Place.provider is not None:
        Place.provider.force_flush(FLUSH)


def on() -> bool:
    return Place.tracer is not None


def span(name: str, *, of: Origin | None = None, **facts: Any) -> AbstractContextManager[Span]:
    """A span around the block: inside the one that is open, else in the story that `of` began, else on its own."""
    if Place.tracer is None:
        return nullcontext(trace.INVALID_SPAN)
    return around(Place.tracer, name, of, facts)


@contextmanager
def around(tracer: trace.Tracer, name: str, of: Origin | None, facts: Mapping[str, Any]) -> Iterator[Span]:
    if of is None or trace.get_current_span().get_span_context().is_valid:
        parent = context.get_current()
    else:
        parent = within(own_context(of))
    told = named(facts)
    with tracer.start_as_current_span(
        name, parent, attributes=told, record_exception=False, set_status_on_exception=False
    ) as made:
        try:
            yield made
        except BaseException as error:
            failed(made, type(error).__name__)
            raise


def moment(name: str, *, of: Origin | None = None, **facts: Any) -> None:
    """Something that took no time: a proposal, a decision."""
    with span(name, of=of, **facts):
        return


def failed(span: Span, error: str) -> None:
    """Mark a span as failed, by the class of what went wrong."""
    span.set_status(Status(StatusCode.ERROR, error))


def receipt(name: str, of: Origin, *, began: datetime, ended: datetime, **facts: Any) -> None:
    """An event's own span, told after it was stored: the root of its trace, or inside the one its sender named."""
    if Place.tracer is None:
        return
    given = sent_context(of.traceparent)
    own = own_context(of)
    mark = planned.set((own.trace_id, own.span_id))
    try:
        parent = within(given) if given else context.Context()
        made = Place.tracer.start_span(
            name, parent, trace.SpanKind.CONSUMER, named(facts), start_time=nanoseconds(began)
        )
    finally:
        planned.reset(mark)
    made.end(nanoseconds(max(began, ended)))


def headers(given: Mapping[str, str]) -> dict[str, str]:
    """What a call to the outside carries: the open span, unless the caller names one himself."""
    carried: dict[str, str] = {}
    if Place.tracer is not None and "traceparent" not in {name.lower() for name in given}:
        W3C.inject(carried)
    return carried


def traceparent(event: Origin) -> str:
    """What events born of this one carry: the open span, else its own place in the trace."""
    if Place.tracer is None:
        return event.traceparent
    carried: dict[str, str] = {}
    open_now = trace.get_current_span().get_span_context().is_valid
    W3C.inject(carried, None if open_now else within(own_context(event)))
    return carried["traceparent"]


def own_context(event: Origin) -> SpanContext:
    """The ids of an event's span: the sender's trace, or one of its own, the same in every process of this desk."""
    mark = hmac.new(settings.SECRET_KEY.encode(), f"event {event.pk}".encode(), hashlib.sha256).digest()
    given = sent_context(event.traceparent)
    text = event.traceparent.strip().lower()
    bare = len(text) == 32 and set(text) <= set("0123456789abcdef") and set(text) != {"0"}  # X-Trace-Id
    trace_id = given.trace_id if given else int(text, 16) if bare else int.from_bytes(mark[:16]) or 1
    flags = given.trace_flags if given else TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(trace_id, int.from_bytes(mark[16:24]) or 1, is_remote=True, trace_flags=flags)


def sent_context(text: str) -> SpanContext | None:
    """The span a sender's `traceparent` names, if it is one."""
    found = trace.get_current_span(W3C.extract({"traceparent": text}, context.Context())).get_span_context()
    return found if found.is_valid else None


def within(parent: SpanContext) -> context.Context:
    return trace.set_span_in_context(NonRecordingSpan(parent), context.Context())


def named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {f"nightdesk.{name}": fact for name, fact in facts.items() if fact is not None}


def nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1e9)


if settings.OTEL_EXPORTER_OTLP_ENDPOINT:
    about = {"service.name": "nightdesk", "deployment.environment.name": settings.ENVIRONMENT}
    maker = TracerProvider(
        id_generator=PlannedIds(),  # type: ignore[arg-type]
        resource=Resource.create({**about, "nightdesk.process": settings.PROCESS or "manage"}),
    )
    exporter = OTLPSpanExporter(endpoint=f"{settings.OTEL_EXPORTER_OTLP_ENDPOINT.rstrip('/')}/v1/traces")
    maker.add_span_processor(BatchSpanProcessor(exporter))
    send_to(maker)
