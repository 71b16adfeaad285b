"""What the API takes and shows of bulk jobs, and how the filter of each verb is read."""

from typing import Any, ClassVar, Literal, get_origin

from ninja import Schema
from pydantic import Field, ValidationError, field_validator

from project.lib.faults import first_fault
from project.lib.pages import Filters
from project.lib.schema import Moment
from project.lib.text import is_storable
from triggers import bulk, schemas, search
from triggers.errors import NotValid
from triggers.models import Bulk, BulkItem, DeadLetter, Event, Run
from triggers.schemas import Slug, Strict

Verb = Literal["redrive", "dismiss", "cancel", "run_again"]
FILTERS: dict[str, type[Filters]] = {
    "redrive": schemas.LetterFilters,
    "dismiss": schemas.LetterFilters,
    "cancel": schemas.RunFilters,
    "run_again": schemas.EventFilters,
}
ROWS: dict[str, Any] = {"redrive": DeadLetter, "dismiss": DeadLetter, "cancel": Run, "run_again": Event}
OF_A_PAGE = ("limit", "after", "format")  # parts of a list's address that are no filter


class BulkIn(Strict):
    """`filter` takes the filters of the verb's list: dead letters, runs to cancel, events to run again.

    `upto` leaves out what has a larger number: what a dry run told you, and nothing that came since."""

    verb: Verb
    filter: dict[str, list[str]]
    triggers: list[Slug] = Field([], max_length=20)
    reason: str = Field("", max_length=2000)
    canary: int = Field(1, ge=0, le=bulk.MOST_CANARIES)
    rate: int = Field(10, ge=1, le=bulk.FASTEST)
    stop_after: int = Field(5, ge=1, le=bulk.MOST_FAILURES)
    upto: int | None = Field(None, ge=1, lt=2**63)
    dry_run: bool = False

    @field_validator("filter", mode="before")
    @classmethod
    def as_texts(cls, given: Any) -> Any:
        """Every value as a list of texts, in one order: two presses that mean the same look the same."""
        if not isinstance(given, dict):
            return given
        lists = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
        return {name: sorted(map(text_of, values)) for name, values in sorted(lists.items()) if values}


def text_of(value: Any) -> str:
    """A text, or a number as one."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("a filter takes texts and numbers")
    if isinstance(value, str) and not is_storable(value):
        raise ValueError("NUL and half a surrogate pair are no characters of a filter")
    return str(value)


def asked(verb: str, texts: dict[str, list[str]]) -> Filters:
    """The filter as its list reads it; raises ValueError (pydantic) for what the list would refuse, ValueError else."""
    kind = FILTERS[verb]
    known = set(kind.model_fields) - set(OF_A_PAGE)
    if unknown := sorted(set(texts) - known):
        raise ValueError(f"there is no filter `{unknown[0]}` here; there are {', '.join(sorted(known))}")
    plural = {name for name, field in kind.model_fields.items() if get_origin(field.annotation) is list}
    given = {name: values if name in plural else one(name, values) for name, values in texts.items()}
    return kind.model_validate(given)


def one(name: str, values: list[str]) -> str:
    if len(values) > 1:
        raise ValueError(f"`{name}` takes one value")
    return values[0]


def rows_of(verb: str, texts: dict[str, list[str]], *, payloads: bool) -> Any:
    """The rows that `texts` finds. Raises NotValid, naming what of the filter makes no sense."""
    try:
        filters = asked(verb, texts)
    except ValidationError as error:
        place, said = first_fault(error)
        raise NotValid(f"filter.{place}: {said}", field="filter") from error
    except ValueError as error:
        raise NotValid(str(error), field="filter") from error
    rows = filters.narrow(ROWS[verb].objects.all())
    question = getattr(filters, "q", "")
    return rows.filter(search.matching(question, payloads=payloads)) if question else rows


class Look(Schema):
    """What a press would take now. `first` are numbers of letters, runs or events."""

    count: int
    first: list[int]
    upto: int


class BulkOut(Schema):
    """`left` were not taken yet; of the `started` ones `succeeded` and `dead` have ended so; `done` start no run."""

    COUNTS: ClassVar[tuple[str, ...]] = ("left", "started", "done", "failed", "skipped", "succeeded", "dead")

    id: int
    verb: str
    status: str
    filter: dict[str, list[str]]
    triggers: list[str]
    reason: str
    by: str | None
    canary: int
    rate: int
    stop_after: int
    total: int
    left: int
    started: int
    done: int
    failed: int
    skipped: int
    succeeded: int
    dead: int
    said: str
    created_at: Moment
    ended_at: Moment | None
    link: str

    @classmethod
    def of(cls, job: Bulk) -> dict[str, Any]:
        other = {*cls.COUNTS, "by", "link"}
        facts = {name: getattr(job, name) for name in set(cls.model_fields) - other}
        by = job.by.username if job.by else None
        return {**facts, **told(job.tally), "by": by, "link": f"/bulk/{job.pk}"}


def told(tally: dict[str, int]) -> dict[str, int]:
    """The numbers of a job, by the words of the API."""
    return {name: tally.get("waiting" if name == "left" else name, 0) for name in BulkOut.COUNTS}


class ItemFilters(Filters):
    NAME: ClassVar[str] = "bulk-items"
    COLUMNS: ClassVar[dict[str, str]] = {"status": "status"}

    status: list[Literal["waiting", "started", "done", "failed", "skipped"]] = []


class ItemOut(Schema):
    """One row of a job; `ref` is the number of a letter, run or event, `run` the run it started."""

    id: int
    ref: int
    trigger: str | None
    status: str
    detail: str
    run: int | None
    run_status: str | None
    at: Moment | None

    @classmethod
    def of(cls, item: BulkItem) -> dict[str, Any]:
        facts = {name: getattr(item, name) for name in ("id", "ref", "status", "detail", "at")}
        run, trigger = item.run, item.trigger
        links = {"run": item.run_id, "run_status": run.status if run else None}
        return {**facts, **links, "trigger": trigger.slug if trigger else None}
