"""Listens to topics of Kafka as one consumer of a group.

Offsets are committed only after the events of their records are. While something is held, since a trigger's queue is
full, the partitions are paused and the group is kept; records of a partition that goes to another consumer are left to
that one."""

from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from project.lib import kafka
from project.lib.egress import Unreachable
from triggers.envelope import Arrival
from triggers.errors import BadDelivery, QueueFull, TriggerFull
from triggers.listeners.thread import Listener, Trouble
from triggers.models import Source, Watch
from triggers.sources import entries
from triggers.sources.kafka import TopicSource, parse_topics
from triggers.unreadable import bury

BATCH = 200  # records of one commit
WAIT = 1.0  # seconds for the next record
ASK = 5.0  # seconds for an answer of the cluster
SESSION = 10.0  # seconds without a sign of ours after which the group gives our partitions to others
MOVED = {  # somebody else reads the partition now
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._STATE,
}
AT_END = KafkaError._PARTITION_EOF

Place = tuple[str, int]


class TopicListener(Listener):
    """Reads its partitions in order; what it read and could not store yet is held."""

    faults: ClassVar[tuple[type[Exception], ...]] = (KafkaException,)
    rest = 0.0  # it waits for records inside its turn

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.topics = parse_topics(source.config)
        self.consumer: Consumer | None = None
        self.assigned: list[TopicPartition] = []
        self.held: list[Message] = []
        self.is_paused = False
        self.wait, self.session = WAIT, SESSION
        self.said = ""  # by the library, of brokers that do not answer
        self.next_count = 0.0

    @property
    def mode(self) -> str:
        return "group" if self.consumer else ""

    def let_go(self) -> None:
        if self.consumer is not None:
            consumer, self.consumer = self.consumer, None
            consumer.close()
        self.assigned, self.held, self.is_paused, self.said = [], [], False, ""

    def turn(self, now: float) -> None:
        consumer = self.consumer or self.settle_in()
        self.held += [record for record in consumer.consume(BATCH, self.wait) if is_record(record)]
        full = self.take_in(consumer)
        self.keep_pace(consumer)
        if now >= self.next_count:
            self.next_count = now + ASK
            self.count(consumer)
        if self.said:
            self.ask_again(consumer)
        if full:
            self.note(Watch.HELD, f"{full.detail} Nothing more is read until there is room.")
        else:
            self.note(Watch.FAILED if self.said else Watch.WATCHING, self.said)

    def settle_in(self) -> Consumer:
        """Connect, see that the topics are there, and join the group."""
        session = {"session.timeout.ms": int(self.session * 1000), "heartbeat.interval.ms": int(self.session * 100)}
        consumer = made(self.source, self.topics, error_cb=self.hear, **session)
        try:
            refuse_missing(self.topics, kafka.met(consumer))
        except BaseException:
            consumer.close()
            raise
        self.consumer = consumer
        consumer.subscribe(self.topics.topics, on_assign=self.assign, on_revoke=self.revoke, on_lost=self.revoke)
        return consumer

    # What the group says, always from within consume()

    def assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """Begin where the group was; a new one writes down at once where it begins: no restart skips a record."""
        known = consumer.committed(given, timeout=ASK)
        if unsure := next((one.error for one in known if one.error), None):
            raise KafkaException(unsure)  # not to be taken for a group without a place
        told = self.read_topics(consumer, {one.topic for one in given})
        fresh = [one for one in known if one.offset < 0]
        for one in fresh:
            low, high = consumer.get_watermark_offsets(one, timeout=ASK)
            is_new = one.topic not in told  # else the topic got more partitions
            one.offset = high if is_new and self.topics.offset_reset == "latest" else low
        if fresh:
            consumer.commit(offsets=fresh, asynchronous=False)
        consumer.assign(known)
        consumer.resume(known)  # the library keeps the pause of a partition that went and came back
        self.assigned, self.is_paused = known, False

    def read_topics(self, consumer: Consumer, topics: set[str]) -> set[str]:
        """Those that this group has read from before: a partition without an offset was added since."""
        there = kafka.met(consumer, wait=ASK)
        parts = [TopicPartition(name, number) for name in topics for number in there[name].partitions]
        return {one.topic for one in consumer.committed(parts, timeout=ASK) if one.offset >= 0}

    def revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """Somebody else reads these from the last commit on: what we hold of them is his."""
        gone = {(one.topic, one.partition) for one in taken}
        self.held = [record for record in self.held if place_of(record) not in gone]
        self.assigned = [one for one in self.assigned if (one.topic, one.partition) not in gone]

    def hear(self, error: KafkaError) -> None:
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL):
            self.said = f"The brokers do not answer: {kafka.words(error)}"

    def ask_again(self, consumer: Consumer) -> None:
        try:
            kafka.met(consumer, wait=ASK)
        except Unreachable as error:
            self.said = f"The brokers do not answer: {error}"
        else:
            self.said = ""

    # Reading

    def take_in(self, consumer: Consumer) -> TriggerFull | QueueFull | None:
        """Commit the events of what is held, then its offsets: also of what nobody can read, as a dead letter.

        Returns why there was no room for it; it is held on then."""
        if not self.held:
            return None
        arrivals: list[Arrival] = []
        for record in self.held:
            try:
                arrivals.append(self.arrival(record))
            except BadDelivery as refused:
                bury(self.source, number_of(record), record.value() or b"", refused.detail)
        try:
            if arrivals:
                self.store(arrivals)
        except (TriggerFull, QueueFull) as full:
            return full
        self.commit(consumer)
        self.held = []
        return None

    def keep_pace(self, consumer: Consumer) -> None:
        """Paused exactly while something is held: then `consume` keeps our place in the group, and brings nothing."""
        if self.is_paused != bool(self.held):
            self.is_paused = bool(self.held)
            (consumer.pause if self.is_paused else consumer.resume)(self.assigned)

    def commit(self, consumer: Consumer) -> None:
        following: dict[Place, int] = {place_of(record): (record.offset() or 0) + 1 for record in self.held}
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in following.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in MOVED:
                raise
            # Whoever has the partition now reads these again; their keys make them duplicates.

    def arrival(self, record: Message) -> Arrival:
        key = record.key() or b""
        return entries.message(
            self.source,
            number_of(record),
            record.value() or b"",
            headers_of(record),
            kind=entries.typed(record.topic() or ""),
            subject=text(key),
        )

    def count(self, consumer: Consumer) -> None:
        """How many records wait, as far as the last answers of the brokers say; of a partition that brought none yet,
        from where the group was."""
        lag, placed = len(self.held), consumer.position(self.assigned)
        try:
            placed = [one for one in placed if one.offset >= 0] + self.written_down(consumer, placed)
            for one in placed:
                _, high = consumer.get_watermark_offsets(one, cached=True)
                if high < 0:
                    _, high = consumer.get_watermark_offsets(one, timeout=ASK)
                lag += max(0, high - one.offset)
        except KafkaException:
            return  # the brokers do not answer, which is said elsewhere
        self.counted = {"lag": lag, "partitions": len(self.assigned)}

    def written_down(self, consumer: Consumer, placed: list[TopicPartition]) -> list[TopicPartition]:
        """What the cluster keeps of those partitions that have no place here yet."""
        blank = [one for one in placed if one.offset < 0]
        return [one for one in consumer.committed(blank, timeout=ASK) if one.offset >= 0] if blank else []


def made(source: Source, topics: TopicSource, **more: Any) -> Consumer:
    told = topics.cluster(source.password).settings(
        **{
            "group.id": topics.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # of a place that is gone; where a new group begins, `assign` says
            "allow.auto.create.topics": False,
            "partition.assignment.strategy": "range",
        },
        **more,
    )
    return Consumer(told)


def refuse_missing(topics: TopicSource, there: Any) -> None:
    if missing := [name for name in topics.topics if name not in there or there[name].error]:
        raise Trouble(f"there is no topic {missing[0]} that {topics.username or 'anybody'} may read")


def is_record(record: Message) -> bool:
    """Raises KafkaException for what is an error in the place of a record."""
    error = record.error()
    if error is None:
        return True
    if error.code() != AT_END:
        raise KafkaException(error)
    return False


def place_of(record: Message) -> Place:
    return record.topic() or "", record.partition() or 0


def number_of(record: Message) -> str:
    """What makes a record once. Its time is part of it: a topic that was made anew counts from nought again."""
    return f"{record.topic()}:{record.partition()}:{record.offset()}:{record.timestamp()[1]}"


def headers_of(record: Message) -> dict[str, str]:
    told: Any = record.headers() or []
    return {str(name): text(value) for name, value in told}


def text(value: bytes | str | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def try_out(source: Source) -> str:
    """Connect as the listener does; what was found, in words. Raises what that raises."""
    topics = parse_topics(source.config)
    consumer = made(source, topics)
    try:
        there = kafka.met(consumer)
        refuse_missing(topics, there)
        many = sum(len(there[name].partitions) for name in topics.topics)
    finally:
        consumer.close()
    return f"Connected: {len(topics.topics)} topic(s) with {many} partitions."
