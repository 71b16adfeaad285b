"""Every entry of a Redis stream becomes one event: acknowledged after the commit, taken over when others left it."""

import json
import time

import pytest
import redis

from project import sample_entries
from tests import builders
from tests.conftest import until
from tests.listening import events, listened, listener, state, turns
from tests.postgres import free_port
from triggers import configure
from triggers.ingest import ingest
from triggers.listeners import keeper, stream
from triggers.models import ConfigVersion, DeadLetter, Event, Pulse, Source, Trigger, Watch

pytestmark = pytest.mark.django_db
QUICK = {"waits": 1}


@pytest.fixture
def far(valkey, settings):
    """A Valkey on a loopback port that the desk may reach."""
    settings.EGRESS_ALLOW = ["127.0.0.1/32"]
    with redis.Redis.from_url(valkey) as opened:
        port = free_port()
        opened.config_set("port", str(port))
    settings.EGRESS_ALLOW = [f"127.0.0.1:{port}"]
    with redis.Redis(port=port, decode_responses=True) as client:
        client.port = port
        yield client


def orders(far, **config):
    given = {"url": f"redis://127.0.0.1:{far.port}/0", "stream": "orders", **config}
    return listened("redis_stream", "orders", **given)


def pending(far):
    return far.xinfo_groups("orders")[0]["pending"]


def test_an_entry_becomes_one_event_and_is_acknowledged(far):
    source = orders(far)
    one = listener(source, **QUICK)
    turns(one)
    number = far.xadd("orders", {"type": "order.created", "payload": '{"id": 1}'})
    turns(one, 2)
    [event] = events("orders")
    assert (event.type, event.ce_id) == ("orders.order.created", f"orders:{number}")
    assert event.data == {"type": "order.created", "payload": '{"id": 1}'}
    assert pending(far) == 0
    assert state(source)[0] == Watch.WATCHING
    assert Pulse.objects.get(name="listen.orders").detail["status"] == Watch.WATCHING


def test_a_field_of_json_is_the_data_when_the_source_names_it(far):
    one = listener(orders(far, data_field="payload"), **QUICK)
    turns(one)
    far.xadd("orders", {"type": "order.created", "payload": '{"id": 9007199254740993}'})
    far.xadd("orders", {"payload": "no json"})
    turns(one, 2)
    first, second = events("orders")
    assert (first.data, first.type) == ({"id": 9007199254740993}, "orders.order.created")
    assert (second.data, second.type) == ("no json", "orders.received")


def test_what_was_there_before_is_read_only_when_asked_for(far):
    far.xadd("orders", {"type": "old"})
    source = orders(far)
    turns(listener(source, **QUICK), 2)
    assert events("orders") == []
    source.delete()
    far.xgroup_destroy("orders", "nightdesk")
    turns(listener(orders(far, start="all"), **QUICK), 2)
    assert [event.type for event in events("orders")] == ["orders.old"]


def test_cloudevents_keep_their_own_words(far):
    one = listener(orders(far), **QUICK)
    builders.Source.objects.update(types=["**"])
    one.source.types = ["**"]
    turns(one)
    event = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "shop.sold", "data": '{"n": 1}'}
    far.xadd("orders", {**event, "subject": "o-1"})
    far.xadd("orders", {"event": json.dumps({**event, "id": "8", "data": {"n": 2}})})
    far.xadd("orders", event)
    turns(one, 2)
    first, second = events("orders")
    assert (first.type, first.ce_id, first.ce_source, first.subject, first.data) == (
        *("shop.sold", "7", "/shop", "o-1"),
        {"n": 1},
    )
    assert (second.ce_id, second.data) == ("8", {"n": 2})
    first.refresh_from_db()
    assert first.duplicates == 1


def test_a_kill_between_commit_and_acknowledgement_doubles_nothing(far):
    source = orders(far)
    one = listener(source, **QUICK)
    turns(one)
    number = far.xadd("orders", {"type": "sold"})
    [(_, [entry])] = far.xreadgroup("nightdesk", one.consumer, {"orders": ">"})
    ingest([one.arrival(f"orders:{number}", {b"type": b"sold"})])
    assert entry[0] == number
    again = listener(source, **QUICK)
    turns(again, 3)
    [event] = events("orders")
    assert (event.duplicates, pending(far)) == (1, 0)


def test_what_another_consumer_took_and_left_is_taken_over(far):
    one = listener(orders(far, claim_after=1), **QUICK)
    turns(one)
    far.xadd("orders", {"type": "left"})
    far.xreadgroup("nightdesk", "somebody-else", {"orders": ">"})
    time.sleep(1.05)
    one.next_claim = 0.0
    turns(one)
    assert [event.type for event in events("orders")] == ["orders.left"]
    assert pending(far) == 0


def test_entries_trimmed_before_anybody_read_them_are_counted_and_said(far):
    source = orders(far)
    one = listener(source, **QUICK)
    turns(one)
    for _ in range(5):
        far.xadd("orders", {"type": "lost"})
    far.xtrim("orders", maxlen=2, approximate=False)
    turns(one, 2)
    assert len(events("orders")) == 2
    status, said = state(source)
    assert (status, said.split(";")[0]) == (
        Watch.WATCHING,
        "3 entries were trimmed from the stream before anybody read it",
    )
    one.next_sign = 0
    turns(one)
    assert Watch.objects.get(source=source).facts == {"pending": 0, "lag": 0, "trimmed": 3}


def test_a_taken_entry_that_was_trimmed_ends_no_listener(far):
    source = orders(far)
    one = listener(source, **QUICK)
    turns(one)
    far.xadd("orders", {"type": "gone"})
    far.xreadgroup("nightdesk", one.consumer, {"orders": ">"})
    far.xtrim("orders", maxlen=0, approximate=False)
    far.xadd("orders", {"type": "next"})
    turns(listener(source, **QUICK), 4)
    assert [event.type for event in events("orders")] == ["orders.next"]
    assert (pending(far), state(source)[1].split(" ")[0]) == (0, "1")


def test_an_entry_nobody_can_read_is_a_dead_letter_and_the_next_is_read(far):
    one = listener(orders(far), **QUICK)
    turns(one)
    far.xadd("orders", {"specversion": "1.0", "id": "1", "type": "t"})
    far.xadd("orders", {"type": "fine", "note": "a\x00b"})
    turns(one, 2)
    bad, good = sorted(events("orders"), key=lambda event: event.status != "invalid")
    assert (bad.status, good.type, pending(far)) == ("invalid", "orders.fine", 0)
    assert good.data["note"] == "a\ufffdb"
    letter = DeadLetter.objects.get()
    assert (letter.kind, letter.event, letter.status) == ("event", bad, "open")
    assert "source" in letter.message


@pytest.mark.parametrize("body", ["[]", "[{}, {}]"])
def test_a_batch_in_one_entry_is_a_dead_letter_and_ends_no_listener(far, body):
    batch = {"datacontenttype": "application/cloudevents-batch+json", "data": body}
    one = listener(orders(far), **QUICK)
    turns(one)
    far.xadd("orders", {"specversion": "1.0", "id": "1", "source": "/x", "type": "t"} | batch)
    far.xadd("orders", {"type": "fine"})
    turns(one, 2)
    assert sorted(event.type for event in events("orders")) == ["orders.fine", "orders.unreadable"]
    assert (pending(far), one.failures) == (0, 0)


def test_a_full_queue_holds_the_reading_and_loses_nothing(far):
    source = orders(far)
    trigger = builders.trigger(source="orders", limits={"queue": {"limit": 1, "when_full": "block"}})
    one = listener(source, **QUICK)
    turns(one)
    far.xadd("orders", {"type": "a"})
    turns(one, 2)
    far.xadd("orders", {"type": "b"})
    turns(one, 2)
    assert (state(source)[0], len(events("orders")), pending(far)) == (Watch.HELD, 1, 1)
    Trigger.objects.filter(pk=trigger.pk).update(limits={})  # there is room again
    ConfigVersion.bump()
    turns(one, 3)
    assert (state(source)[0], len(events("orders")), pending(far)) == (Watch.WATCHING, 2, 0)


def test_a_group_that_is_gone_is_made_again_where_it_was(far):
    one = listener(orders(far), **QUICK)
    turns(one)
    far.xadd("orders", {"type": "read"})
    turns(one, 2)
    far.xgroup_destroy("orders", "nightdesk")
    for _ in range(3):
        far.xadd("orders", {"type": "meanwhile"})
    far.xtrim("orders", maxlen=2, approximate=False)
    turns(one, 3)
    assert [event.type for event in events("orders")] == ["orders.read", "orders.meanwhile", "orders.meanwhile"]
    assert (pending(far), one.kept["trimmed"]) == (0, 1)


def test_what_a_group_had_taken_when_it_went_is_read_again(far):
    one = listener(orders(far), **QUICK)
    turns(one)
    far.xadd("orders", {"type": "taken"})
    far.xreadgroup("nightdesk", "somebody-else", {"orders": ">"})
    turns(one)
    far.xgroup_destroy("orders", "nightdesk")
    turns(listener(one.source, **QUICK), 2)
    assert [event.type for event in events("orders")] == ["orders.taken"]


def test_a_stream_that_was_made_anew_is_read_from_its_first_entry(far):
    one = listener(orders(far), **QUICK)
    turns(one)
    far.xadd("orders", {"type": "old"})
    turns(one, 2)
    far.delete("orders")
    far.xadd("orders", {"type": "new"}, id="1-1")  # its clock went back
    turns(one, 3)
    assert [event.type for event in events("orders")] == ["orders.old", "orders.new"]
    far.xadd("orders", {"type": "lost"}, id="2-1")
    far.xtrim("orders", maxlen=0, approximate=False)
    turns(one)
    assert one.kept["trimmed"] == 1


def test_another_group_begins_as_the_source_says(far):
    one = listener(orders(far), **QUICK)
    turns(one)
    far.xadd("orders", {"type": "first"})
    one.source.config = {**one.source.config, "group": "second", "start": "all"}
    one.source.save()
    turns(listener(one.source, **QUICK), 2)
    assert [event.type for event in events("orders")] == ["orders.first"]


def test_another_server_or_database_begins_as_the_source_says(far):
    source = orders(far, start="all")
    far.xadd("orders", {"type": "here"}, id="500-1")
    before = listener(source, **QUICK)
    turns(before, 3)
    assert before.kept["read"] == "500-1"
    with redis.Redis(port=far.port, db=1) as other:
        other.xadd("orders", {"type": "older"}, id="100-1")
        other.xadd("orders", {"type": "newer"}, id="900-1")
    config = {**source.config, "url": f"redis://127.0.0.1:{far.port}/1"}
    configure.change_source(source, by=None, version=source.version, config=config)
    turns(listener(source, **QUICK), 2)
    assert [event.type for event in events("orders")] == ["orders.here", "orders.older", "orders.newer"]


def test_a_server_that_goes_is_said_and_taken_up_again(far, settings):
    source = orders(far)
    one = listener(source, **QUICK)
    turns(one)
    settings.EGRESS_ALLOW = []
    one.let_go()
    turns(one)
    status, said = state(source)
    assert status == Watch.FAILED
    assert said.endswith("EGRESS_ALLOW can name it")
    settings.EGRESS_ALLOW = [f"127.0.0.1:{far.port}"]
    far.xadd("orders", {"type": "meanwhile"})
    turns(one, 2)
    assert ([event.type for event in events("orders")], one.failures) == (["orders.meanwhile"], 0)


def test_a_sample_is_added_to_the_stream(far):
    one = listener(orders(far), **QUICK)
    turns(one)
    sample_entries.into_stream(one.source, 7)
    turns(one, 2)
    [event] = events("orders")
    assert (event.type, json.loads(event.data["payload"])["id"]) == ("orders.order.created", 7)
    with pytest.raises(sample_entries.NotWritten, match="no open source of kind kafka"):
        sample_entries.write("kafka-order", 7)


def test_the_address_is_tried_out_in_words(far):
    far.xadd("orders", {"type": "a"})
    assert stream.try_out(orders(far)) == "Connected: the stream orders holds 1 entries."
    source = Source.objects.get()
    source.config = {**source.config, "url": "redis://127.0.0.1:1/0"}
    with pytest.raises(Exception, match="EGRESS_ALLOW can name it"):
        stream.try_out(source)


@pytest.mark.django_db(transaction=True)
def test_a_listener_that_died_is_started_again_and_said(far, monkeypatch):
    source = orders(far)
    monkeypatch.setattr(keeper, "BACKOFF", (0,))
    kept = keeper.Keeper()
    try:
        kept.look()
        until(lambda: Watch.objects.filter(source=source, status=Watch.WATCHING).exists())
        first = kept.kept[source.pk].listener
        first.stop()  # as if its thread had ended by itself
        first.join(5)
        kept.look()
        assert state(source)[1].startswith("Its listener died and is started again")
        kept.look()
        far.xadd("orders", {"type": "alive"})
        until(lambda: Event.objects.filter(source=source).exists())
        assert kept.kept[source.pk].listener is not first
    finally:
        kept.stop()
