"""The buttons that ring the desk with a test delivery: on the home page, and on each source's own."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from project import sample_entries, samples
from project.lib.language import phrase
from project.lib.problem import Problem
from project.people.doors import needs, safe_next, who
from project.samples import NotSent, Sent
from project.trial_samples import provider_of
from triggers.models import Audit, Source

FIRST = "github-issue"  # the sample that the home page sends
FILE = "upload"
ANY = "generic"  # for whoever describes a scheme of his own, or signs nothing


@require_POST
@needs("operate")
def send_test(request: HttpRequest) -> HttpResponse:
    """Ring the desk's own door with a real, signed GitHub delivery."""
    try:
        sent = samples.send(FIRST, by=who(request).pk)
    except NotSent as problem:
        messages.error(request, phrase("The test delivery did not arrive: {problem}", problem=problem))
        return redirect(safe_next(request, "/"))
    source = Source.objects.get(slug=samples.SAMPLES[FIRST].source)
    Audit.write("send test", source, by=who(request), event=sent.seq)
    messages.success(request, accepted(sent))
    return redirect(safe_next(request, "/"))


@require_POST
@needs("operate")
def send_to_source(request: HttpRequest, slug: str) -> HttpResponse:
    """Ring one source as its own sender would: signed with its secret, or written where it reads."""
    source = get_object_or_404(Source.objects.open(), slug=slug)
    try:
        sent = send_to(source, who(request).pk)
    except (NotSent, sample_entries.NotWritten) as problem:
        messages.error(request, phrase("The test delivery did not arrive: {problem}", problem=problem))
    except Problem as problem:
        messages.error(request, problem.detail)
    else:
        Audit.write("send test", source, by=who(request), event=sent.seq)
        messages.success(request, accepted(sent) if sent.seq else "It is written, and appears here once it is read.")
    return redirect("source-edit", slug=slug)


def accepted(sent: Sent) -> SafeString:
    link = format_html('<a href="/events/{}">E-{}</a>', sent.seq, sent.seq) if sent.seq else ""
    return format_html("Delivered and accepted as {}. Watch it work.", link)


def send_to(source: Source, by: int) -> Sent:
    """One fresh sample for this source. Raises NotSent, NotWritten."""
    if source.kind in Source.DOORS:
        headers, body = samples.prepare(samples.SAMPLES[sample_for(source)])
        return samples.send_signed(source, headers, body, by=by)
    if source.kind == "file":
        headers, body = samples.prepare(samples.SAMPLES[FILE])
        samples.lay(source, headers["File-Name"], body)
    else:
        sample_entries.write_into(source, samples.next_number())
    return Sent("written", None, "")


def sample_for(source: Source) -> str:
    """The first sample of its provider; where nobody known sends, what any program could."""
    provider = source.provider or source.kind
    known = (name for name, one in samples.SAMPLES.items() if provider in (name, provider_of(one)))
    return next(known, ANY)
