"""Every record of a Kafka topic becomes one event, its offset committed after it; `kafka.publish` writes one record.

The cluster is librdkafka's own, inside this process; it takes three seconds to let somebody into a group."""

import json
import logging
from datetime import timedelta
from itertools import count
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from approvals.connectors import kafka as connector
from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.kinds import KINDS, Far
from approvals.reach import check_connection
from project import sample_entries
from project.lib import kafka
from project.lib.egress import Unreachable
from tests import builders
from tests.conftest import until
from tests.listening import events, listened, listener, state, turns
from triggers.listeners import kafka as listening
from triggers.listeners import tryout
from triggers.models import ConfigVersion, DeadLetter, Trigger, Watch
from triggers.sources import entries

pytestmark = pytest.mark.django_db
QUIET = logging.getLogger("librdkafka")
QUIET.setLevel(logging.CRITICAL)
QUICK = {"wait": 0.05, "session": 6.0}
numbers = count(1)


@pytest.fixture(scope="module")
def cluster():
    producer = Producer({"test.mock.num.brokers": 1, "linger.ms": 0, "logger": QUIET, "log_level": 0})
    [broker] = producer.list_topics(timeout=10).brokers.values()
    return SimpleNamespace(producer=producer, address=f"{broker.host}:{broker.port}")


@pytest.fixture
def far(cluster, settings):
    """The cluster with a fresh topic; `write` returns when the records are there."""
    settings.EGRESS_ALLOW = [cluster.address]
    topic = f"orders{next(numbers)}.new"

    def write(*values, key=b"o-1", **named):
        for value in values:
            cluster.producer.produce(topic, key=key, value=value, **{"partition": 0, **named})
        assert cluster.producer.flush(10) == 0

    write(b'"from before"')
    return SimpleNamespace(address=cluster.address, topic=topic, write=write)


def topics(far, slug="shop", **config):
    given = {"brokers": [far.address], "topics": [far.topic], "security": "plaintext", "group": f"g-{far.topic}"}
    return listened("kafka", slug, **{**given, **config})


def joined(source):
    one = listener(source, **QUICK)
    until(lambda: turns(one) or one.assigned, seconds=60)
    return one


def offset(far):
    with_group = Consumer({"bootstrap.servers": far.address, "group.id": f"g-{far.topic}", "logger": QUIET})
    [told] = with_group.committed([TopicPartition(far.topic, 0)], timeout=10)
    with_group.close()
    return told.offset


def test_records_become_events_and_offsets_follow_them(far):
    source = topics(far)
    one = joined(source)
    assert offset(far) == 1  # where a new group begins is written down at once
    bits = {"ce_specversion": "1.0", "ce_id": "7", "ce_source": "/shop", "ce_type": "shop.sold"}
    whole = {"specversion": "1.0", "id": "8", "source": "/shop", "type": "shop.sold", "data": {"n": 2}}
    far.write(b'{"n": 9007199254740993}', headers={"trace": b"t"})
    far.write(b'{"n": 1}', headers={**bits, "content-type": "application/json"})
    far.write(json.dumps(whole), headers={"content-type": "application/cloudevents+json"})
    far.write(b"{}", headers={**bits, "ce_source": ""})
    far.write(None)
    until(lambda: turns(one) or len(events("shop")) == 5)
    found = {event.ce_id.partition(":")[0]: event for event in events("shop") if event.status != "invalid"}
    plain, binary, structured, empty = events("shop")[1:] if events("shop")[0].status == "invalid" else found.values()
    assert (plain.type, plain.subject, plain.data) == (f"shop.{far.topic}", "o-1", {"n": 9007199254740993})
    assert plain.headers == {"trace": "t"}
    assert (binary.type, binary.ce_id, binary.ce_source, binary.data) == ("shop.sold", "7", "/shop", {"n": 1})
    assert (structured.ce_id, structured.data) == ("8", {"n": 2})
    assert empty.data is None
    assert DeadLetter.objects.get().event.status == "invalid"
    assert (offset(far), state(source)[0]) == (6, Watch.WATCHING)
    one.let_go()

    far.write(b'"while nobody listened"')
    again = joined(source)
    until(lambda: turns(again) or len(events("shop")) == 6)
    assert events("shop")[-1].data == "while nobody listened"
    assert not any(event.duplicates for event in events("shop"))
    sample_entries.into_topic(source, 7)
    until(lambda: turns(again) or len(events("shop")) == 7)
    assert (events("shop")[-1].subject, events("shop")[-1].data["id"]) == ("order-7", 7)
    again.next_count, again.next_sign = 0, 0
    turns(again)
    assert Watch.objects.get().facts == {"lag": 0, "partitions": 4}
    again.let_go()


def test_a_full_queue_pauses_the_partitions_and_keeps_the_group(far):
    source = topics(far, offset_reset="earliest")
    builders.trigger(source="shop", limits={"queue": {"limit": 1, "when_full": "block"}})
    one = joined(source)
    until(lambda: turns(one) or len(events("shop")) == 1)
    far.write(b"2")
    until(lambda: turns(one) or state(source)[0] == Watch.HELD)
    consumer = one.consumer
    far.write(b"3")
    turns(one, 3)
    assert (len(events("shop")), offset(far), len(one.held)) == (1, 1, 1)
    Trigger.objects.update(limits={})
    ConfigVersion.bump()
    until(lambda: turns(one) or len(events("shop")) == 3)
    turns(one)
    assert (state(source)[0], offset(far), one.consumer is consumer) == (Watch.WATCHING, 3, True)
    one.let_go()


def test_a_pause_does_not_outlive_what_is_held(far):
    """Somebody joins the group and leaves it while our queue is full: what we held is read again once there is room."""
    source = topics(far, offset_reset="earliest")
    builders.trigger(source="shop", limits={"queue": {"limit": 1, "when_full": "block"}})
    one = joined(source)
    until(lambda: turns(one) or len(events("shop")) == 1)
    far.write(b"2", b"3")
    until(lambda: turns(one) or state(source)[0] == Watch.HELD)
    one.next_count = one.next_sign = 0
    turns(one)
    assert Watch.objects.get().facts == {"lag": 2, "partitions": 4}
    another = Consumer({"bootstrap.servers": far.address, "group.id": f"g-{far.topic}", "logger": QUIET})
    another.subscribe([far.topic])
    until(lambda: turns(one) or another.poll(0.05) or len(one.assigned) < 4, seconds=60)
    another.close()
    Trigger.objects.update(limits={})
    ConfigVersion.bump()
    until(lambda: turns(one) or len(events("shop")) == 3, seconds=60)
    until(lambda: turns(one) or offset(far) == 3)
    one.let_go()


def test_partitions_that_move_to_another_consumer_lose_and_double_nothing(far):
    source = topics(far, offset_reset="earliest")
    first = joined(source)
    for number in range(40):
        far.write(str(number).encode(), partition=number % 4)
    second = listener(source, **QUICK)

    def both():
        turns(first)
        turns(second)

    until(lambda: both() or (second.assigned and len(first.assigned) < 4), seconds=60)
    for number in range(40, 80):
        far.write(str(number).encode(), partition=number % 4)
    until(lambda: both() or len(events("shop")) >= 81)
    second.let_go()
    far.write(b"80")
    until(lambda: turns(first) or len(events("shop")) >= 82, seconds=40)
    numbers = sorted(event.data for event in events("shop") if isinstance(event.data, int))
    assert numbers == list(range(81))
    first.let_go()


def test_what_is_held_of_a_lost_partition_is_left_to_the_next(far):
    one = listener(topics(far))
    record = SimpleNamespace(topic=lambda: far.topic, partition=lambda: 0)
    other = SimpleNamespace(topic=lambda: far.topic, partition=lambda: 1)
    one.held, one.assigned = [record, other], [TopicPartition(far.topic, 0), TopicPartition(far.topic, 1)]
    one.revoke(None, [TopicPartition(far.topic, 0)])
    assert (one.held, [part.partition for part in one.assigned]) == ([other], [1])


def test_a_group_whose_place_is_gone_goes_on_with_what_is_left(far, monkeypatch):
    """Records that were deleted before anybody read them take none of the later ones with them."""
    told = {}
    monkeypatch.setattr(listening, "Consumer", told.update)
    one = listener(topics(far, offset_reset="latest"))
    listening.made(one.source, one.topics)
    assert told["auto.offset.reset"] == "earliest"


def test_a_place_the_cluster_cannot_tell_is_not_taken_for_none(far):
    one = listener(topics(far))
    unsure = SimpleNamespace(topic=far.topic, partition=0, offset=-1001, error=KafkaError(KafkaError._FAIL))
    with pytest.raises(KafkaException):
        one.assign(SimpleNamespace(committed=lambda given, timeout: [unsure]), [])


def test_the_headers_of_a_record_are_kept_as_every_database_can(far):
    headers = {"content-type": "a/b\x00", "na\x00me": "x" * 3000}
    arrival = entries.message(topics(far), "t:0:1:2", b"{}", headers)
    assert (arrival.datacontenttype, list(arrival.headers)) == ("a/b\ufffd", ["content-type", "na\ufffdme"])
    assert len(arrival.headers["na\ufffdme"]) == 2000


def test_the_cluster_is_tried_out_in_words(far, settings):
    assert tryout.try_out(topics(far)) == "Connected: 1 topic(s) with 4 partitions."
    settings.EGRESS_ALLOW = []
    with pytest.raises(Exception, match="EGRESS_ALLOW can name it"):
        tryout.try_out(topics(far, "closed"))
    settings.EGRESS_ALLOW = ["127.0.0.1:9"]
    nobody = topics(far, "nobody", brokers=["127.0.0.1:9"])
    consumer = listening.made(nobody, listening.parse_topics(nobody.config))
    with pytest.raises(Unreachable):
        kafka.met(consumer, wait=0.3)
    consumer.close()


# --- kafka.publish ---


def sent(far, key="k-1", **arguments):
    given = {"type": f"{far.topic.partition('.')[0]}.new", "data": {"n": 1}, **arguments}
    side = Far("cluster", {"brokers": [far.address], "security": "plaintext"}, {})
    return connector.deliver(side, KINDS["kafka.publish"].read(given), key)


def read_back(far, topic, partition, at):
    reader = Consumer({"bootstrap.servers": far.address, "group.id": "reader", "logger": QUIET})
    reader.assign([TopicPartition(topic, partition, at)])
    record = reader.poll(10)
    reader.close()
    return record


def test_a_record_is_a_cloudevent_under_the_key_of_its_action(far):
    told = sent(far, correlationid="c-7", subject="o-1")
    assert (told["topic"], told["id"]) == (far.topic.partition(".")[0], "k-1")
    record = read_back(far, told["topic"], told["partition"], told["offset"])
    assert (record.key(), json.loads(record.value())) == (b"c-7", {"n": 1})
    assert dict(record.headers()) == {
        "ce_specversion": b"1.0",
        "ce_id": b"k-1",
        "ce_source": b"/nightdesk",
        "ce_type": f"{told['topic']}.new".encode(),
        "ce_subject": b"o-1",
        "ce_correlationid": b"c-7",
        "ce_severity": b"info",
        "content-type": b"application/json",
    }


def test_a_record_that_cannot_be_written_says_what_became_of_it(far, settings):
    with pytest.raises(Refused, match="too large"):
        sent(far, data="x" * 2_000_000)
    settings.EGRESS_ALLOW = ["127.0.0.1:9"]
    with pytest.raises(Refused, match="EGRESS_ALLOW can name it"):
        sent(far)
    away = Far("away", {"brokers": ["127.0.0.1:9"], "security": "plaintext"}, {}, timeout=timedelta(seconds=6))
    with pytest.raises(NotSent):
        connector.deliver(away, KINDS["kafka.publish"].read({"type": "a.b"}), "k")
    codes = {
        KafkaError._MSG_TIMED_OUT: OutcomeUnknown,
        KafkaError._PURGE_QUEUE: NotSent,
        KafkaError.UNKNOWN_TOPIC_OR_PART: Refused,
        KafkaError.TOPIC_AUTHORIZATION_FAILED: Refused,
    }
    assert {code: type(connector.failed(away, KafkaError(code))) for code in codes} == codes


def test_what_people_read_of_a_record():
    kind = KINDS["kafka.publish"]
    record = kind.read({"type": "orders.created", "subject": "o-1", "data": {"n": 1}})
    assert kind.headline(record) == "Write orders.created to topic orders about o-1"
    assert {"label": "Topic", "text": "orders", "form": "text"} in kind.summary({"type": "orders.created"})
    with pytest.raises(NotValid):
        kind.read({"type": "no topic"})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "it names no brokers"),
        ({"brokers": ["10.0.0.7"]}, "not written host:9092"),
        ({"brokers": ["10.0.0.7:9092"]}, "private or reserved"),
        ({"brokers": ["10.0.0.7:9092"], "security": "starttls"}, "makes no sense"),
    ],
)
def test_a_connection_without_a_cluster_is_refused(config, said):
    with pytest.raises(NotValid) as refused:
        check_connection("kafka", config, {}, practice=False)
    assert (refused.value.facts["field"], said in refused.value.detail) == ("brokers", True)
    check_connection("kafka", {}, {}, practice=True)


def test_a_sample_that_no_broker_takes_is_not_called_written(far, settings, monkeypatch):
    monkeypatch.setattr(sample_entries, "TAKEN_WITHIN", 0.5)
    settings.EGRESS_ALLOW = ["127.0.0.1:9"]
    with pytest.raises(sample_entries.NotWritten, match="do not take it"):
        sample_entries.into_topic(topics(far, brokers=["127.0.0.1:9"]), 7)
