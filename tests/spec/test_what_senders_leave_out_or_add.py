"""Senders leave headers out, pack, pad and re-encode: nothing they sent is lost, and nothing of it breaks the door."""

import gzip
import json
from typing import Any

import pytest

from approvals.act import act
from tests import builders
from tests.deliveries import Answered, deliver, github, signed
from tests.handlers import fresh, work
from tests.nodding import handling
from tests.recorder import Recorder
from triggers import refusals
from triggers.errors import NotValid
from triggers.filters import compile_filter
from triggers.models import Event, Refusal

pytestmark = pytest.mark.django_db(transaction=True)
CONTENT = b'{"test":"ok"}'
MULTIPART = (
    b'--cut\r\nContent-Disposition: form-data; name="field"\r\n\r\nsometext\r\n--cut\r\n'
    b'Content-Disposition: form-data; name="file"; filename="../../etc/passwd"\r\n'
    b"Content-Type: text/plain\r\n\r\n\r\n--cut--\r\n"
)


def send(body: bytes, content_type: str | None = "application/json", **headers: str) -> Answered:
    """One delivery that is signed as GitHub signs, with this content type or none."""
    request = github(body, **headers)
    if content_type is None:
        del request["headers"]["Content-Type"]
    else:
        request["headers"]["Content-Type"] = content_type
    [answer] = deliver(request)
    return answer


@pytest.mark.parametrize("content_type", [None, "", "text/plain", "nonsense", "; charset=utf-8", ";;;"])
def test_without_a_content_type_that_fits_a_json_body_is_read_or_kept_as_text(content_type: str | None) -> None:
    """WH-09: never an accepted delivery without its data."""
    builders.source()
    assert send(CONTENT, content_type).status == 202
    event = Event.objects.get()
    assert event.data == {"test": "ok"}
    assert bytes(event.raw) == CONTENT


@pytest.mark.parametrize("content_type", [None, "text/plain"])
def test_a_text_that_is_no_json_stays_the_text_it_is(content_type: str | None) -> None:
    """WH-09: and says that it is text."""
    builders.source()
    assert send(b"build 7 is done", content_type).status == 202
    event = Event.objects.get()
    assert (event.data, event.datacontenttype) == ("build 7 is done", "text/plain")


@pytest.mark.parametrize("body", [b'{"test":', b"[1,"])
def test_what_begins_like_json_and_is_none_is_refused_and_kept(body: bytes) -> None:
    """WH-09: a body that was cut off is no text."""
    builders.source()
    assert send(body, None).status == 400
    assert bytes(Refusal.objects.get().body) == body


@pytest.mark.parametrize("body", [MULTIPART, b"", b"--cut--"])
def test_a_form_with_files_is_refused_in_words_and_writes_no_file(body: bytes) -> None:
    """WH-10: no source takes multipart bodies; a clear 415, whatever the file is called."""
    builders.source()
    answer = send(body, "multipart/form-data; boundary=cut")
    assert (answer.status, answer.json["code"]) == (415, "unsupported_media_type")
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("a%20b", "a b"), ("caf%C3%A9", "café"), ("100%25", "100%"), ("100%", "100%"), ("caf\xe9", "caf\ufffd")],
)
def test_attributes_in_headers_are_decoded_and_what_is_no_encoding_stays(sent: str, stored: str) -> None:
    """WH-12: percent signs, and a byte that is no text."""
    builders.source("bus", kind="cloudevents", provider="")
    headers = {"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "/shop", "ce-type": "bus.sold", "ce-subject": sent}
    headers |= {"Authorization": f"Bearer {builders.SECRET}", "Content-Type": "application/json"}
    [answer] = deliver({"slug": "bus", "body": CONTENT, "headers": headers})
    assert answer.status == 202
    assert Event.objects.get().subject == stored


def test_a_byte_that_is_no_text_in_an_id_breaks_nothing() -> None:
    """WH-12: the id is stored or refused, and its repeat is known."""
    builders.source("bus", kind="cloudevents", provider="")
    headers = {"ce-specversion": "1.0", "ce-id": "e-\xe9", "ce-source": "/shop", "ce-type": "bus.sold"}
    headers |= {"Authorization": f"Bearer {builders.SECRET}", "Content-Type": "application/json"}
    statuses = [deliver({"slug": "bus", "body": CONTENT, "headers": headers})[0].status for _ in range(2)]
    assert statuses in ([202, 200], [400, 400], [422, 422])


ODD = b'{"b":1,"a":2,"a":3,"f":1e20}'


def test_a_body_is_what_it_was_whatever_a_database_makes_of_json() -> None:
    """JS-07: the claim on the body is over its bytes; of two members of one name the last counts, everywhere alike."""
    builders.source()
    builders.trigger("story", filter_plan=compile_filter("event.data.a == 3 && event.data.f > 1.0"))
    builders.trigger("story", filter_plan=compile_filter("event.data.a == 2"))
    assert send(ODD).status == 202
    event = Event.objects.get()
    assert bytes(event.raw) == ODD
    assert event.data == {"b": 1, "a": 3, "f": 1e20}
    assert event.runs.count() == 1, "the filter read the same value"
    again = send(ODD, **{"X_GitHub_Delivery": "another-unsigned-id"})
    assert (again.status, again.json["status"]) == (200, "duplicate")


def test_what_goes_out_is_the_bytes_that_were_frozen(settings: Any) -> None:
    """JS-07: the digest people saw and the bytes on the wire are of one text."""
    settings.EGRESS_ALLOW = ["127.0.0.1"]
    builders.source()
    send(ODD)
    with Recorder() as far:
        builders.connection("http", practice=False)

        def story(run: Any) -> None:
            act(run, "forward", kind="http.request", url=f"{far.url}/x", json=run.event.data)

        with handling(story):
            run = builders.run("story", event=Event.objects.get())
            work()
        fresh(run)
    action = run.actions.get()
    assert json.loads(action.canonical)["arguments"]["json"] == {"a": 3, "b": 1, "f": 1e20}
    assert action.digest == action.proposal_digest


def test_another_encoding_is_read_when_it_is_named_and_refused_when_it_is_not() -> None:
    """JS-10: bytes that are no UTF-8."""
    builders.source()
    latin = b'{"n":"caf\xe9"}'
    refused = send(latin, id="d-1")
    assert refused.status == 400
    assert Refusal.objects.get().body is not None
    assert bytes(Refusal.objects.get().body) == latin, "kept as it came, for who looks into it"
    assert send(latin, "application/json; charset=iso-8859-1", id="d-2").status == 202
    assert send('{"n":"né"}'.encode("utf-16"), "application/json; charset=utf-16", id="d-3").status == 202
    assert [event.data for event in Event.objects.order_by("pk")] == [{"n": "café"}, {"n": "né"}]


def test_a_packed_body_expands_to_what_the_source_takes_and_no_further() -> None:
    """JS-10: gzip, and a bomb of it."""
    builders.source(max_body=10_000)
    packed = gzip.compress(CONTENT)
    assert send(packed, Content_Encoding="gzip", X_Hub_Signature_256=signed(packed)).status == 202
    bomb = gzip.compress(b"0" * 5_000_000)
    assert send(bomb, Content_Encoding="gzip", id="d-2", X_Hub_Signature_256=signed(bomb)).status == 413
    assert Event.objects.get().data == {"test": "ok"}


@pytest.mark.parametrize("way", ["br", "deflate", "zstd", "gzip, br"])
def test_a_body_packed_in_a_way_we_cannot_undo_is_refused_and_not_lost(way: str) -> None:
    """WH-09: no 2xx with empty data."""
    builders.source()
    packed = b"\x0b\x02\x80{}\x03\xff\xfe"
    answer = send(packed, "text/plain", Content_Encoding=way, X_Hub_Signature_256=signed(packed))
    assert (answer.status, answer.json["code"], answer.json["accepted"]) == (415, "unsupported_encoding", "gzip")
    assert answer.headers["accept-encoding"] == "gzip"
    assert not Event.objects.exists()
    kept = Refusal.objects.get()
    assert (kept.reason, bytes(kept.body or b"")) == ("unsupported_encoding", packed), "for whoever can unpack it"
    with pytest.raises(NotValid, match="are not read here; gzip is"):
        refusals.admit(kept, by=None)
    assert send(CONTENT, Content_Encoding="identity", X_Hub_Signature_256=signed(CONTENT)).status == 202


@pytest.mark.parametrize("said", ["utf-8", "UTF8", "none", "br", "deflate, utf-8"])
def test_a_body_that_was_never_packed_is_read_whatever_is_said_of_it(said: str) -> None:
    builders.source()
    assert send(CONTENT, Content_Encoding=said, X_Hub_Signature_256=signed(CONTENT)).status == 202
    assert Event.objects.get().data == {"test": "ok"}


@pytest.mark.parametrize("packed", [b"\x1f\x8bno gzip", gzip.compress(b"0" * 9_000_000)], ids=["broken", "a bomb"])
def test_a_stranger_hears_the_same_whatever_he_packed(packed: bytes) -> None:
    """WH-05: what is wrong with a forged delivery is nobody's but ours to know."""
    builders.source(max_body=10_000_000)
    plain = send(b"{}", X_Hub_Signature_256="sha256=00")
    for way in ("gzip", "br"):
        odd = send(packed, Content_Encoding=way, X_Hub_Signature_256="sha256=00")
        assert (odd.status, odd.body) == (plain.status, plain.body) == (401, plain.body)
