"""What the chat models of a graph took, and what they may take: booked and bounded like an agent's requests."""

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from langchain_core.outputs import ChatGeneration, Generation
from pydantic import ConfigDict, ValidationError, create_model

from project.agent import budget
from project.agent.budget import MOST_TOKENS, Used
from project.agent.config import Config
from project.agent.provider import estimate
from project.agent.turns import LETTERS
from project.lib.faults import first_fault
from project.lib.text import made_storable
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.models import Step

BOUNDS = ("max_requests", "max_tokens", "max_cost", "max_seconds", "day_tokens", "day_cost", "price_in", "price_out")
FIELDS: dict[str, Any] = {name: (Config.model_fields[name].annotation, Config.model_fields[name]) for name in BOUNDS}
Limits = create_model("Limits", __config__=ConfigDict(extra="forbid"), **FIELDS)  # as those of an agent, by its words
GENERATIONS, SPENT = "generations", "spent"  # what is remembered of an answer: itself, and what it took
ASKS = " asks "  # in the name of its step
ANSWER = int(Config.model_fields["answer_tokens"].default)  # tokens of one that is still to come, about
Spent = dict[str, Any]  # `{model, tokens_in, tokens_out, cost, took}`


class NoLimits(Permanent):
    """The limits of a graph are those of an agent that bound requests: names, and what they take."""


class Purse:
    """Of one run, counted from what it remembers; used in the worker's thread."""

    def __init__(self, run: Durable, limits: Mapping[str, Any]) -> None:
        """Raises NoLimits."""
        try:
            self.limits: dict[str, Any] = Limits.model_validate(dict(limits)).model_dump(mode="json")
        except ValidationError as error:
            place, told = first_fault(error)
            raise NoLimits(f"limits of a graph: {place}: {told}") from None
        self.run = run
        self.used = Used({"limits": self.limits})
        self.model = ""  # the one that answered last
        self.under_way: dict[Hashable, tuple[int, str | None]] = {}  # by request: tokens and dollars it may come to
        for step in run.journal.steps.values():
            if spent := spent_by(step):
                self.add(spent)

    def add(self, spent: Spent) -> None:
        self.used.add(spent)
        self.model = spent["model"]

    def ask(self, request: Hashable, letters: int) -> None:
        """A request of so many letters begins; what it may come to is held back from the day until it is answered, or
        its superstep is over. Raises LimitReached before one too many, DayReserved when others may use the rest."""
        self.used.check()
        under_way = {**self.under_way, request: self.at_most(letters)}
        tokens, costs = sum(one for one, _ in under_way.values()), [cost for _, cost in under_way.values()]
        known = [Decimal(cost) for cost in costs if cost is not None]
        cost = str(sum(known)) if len(known) == len(costs) else None
        if budget.hold(self.run.row, self.limits, tokens, cost, self.run.row.flow.timeout):
            self.under_way = under_way

    def at_most(self, letters: int) -> tuple[int, str | None]:
        counted = {"tokens_in": letters // LETTERS, "tokens_out": ANSWER}
        cost = estimate(self.model, **counted) if self.model else None
        return sum(counted.values()), budget.price(self.limits, {**counted, "cost": cost})

    def book(self, request: Hashable, step: str, spent: Spent) -> None:
        """What an answer took, whatever becomes of it. While others of this run are under way its share stays held."""
        budget.note(self.run.row, step, spent["model"], spent)
        self.add(spent)
        if self.under_way.pop(request, None) and not self.under_way:
            budget.release(self.run.row)

    def close(self) -> None:
        """No request is under way any more; what failed has no answer."""
        if self.under_way:
            self.under_way = {}
            budget.release(self.run.row)

    def bill(self, prompt: str, answer: Sequence[Generation], took: float) -> Spent:
        """What the model itself counted, else what its texts come to."""
        message = answer[0].message if answer and isinstance(answer[0], ChatGeneration) else None
        usage: Any = getattr(message, "usage_metadata", None) or {}
        said: dict[str, Any] = getattr(message, "response_metadata", None) or {}
        tokens_in, tokens_out = int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0)
        if tokens_in < 1 or tokens_out < 0:  # it did not count, or nonsense, and limits must hold all the same
            tokens_in, tokens_out = len(prompt) // LETTERS, sum(len(one.text) for one in answer) // LETTERS
        name, provider = str(said.get("model_name") or said.get("model") or ""), str(said.get("model_provider") or "")
        counted = {"tokens_in": min(tokens_in, MOST_TOKENS), "tokens_out": min(tokens_out, MOST_TOKENS)}
        cost = estimate(f"{provider}:{name}" if provider else name, **counted) if name else None
        priced = budget.price(self.limits, {**counted, "cost": cost})
        return {"model": made_storable(name)[:200], **counted, "cost": priced, "took": round(took, 3)}


def spent_by(step: Step) -> Spent | None:
    """What the answer took that this step remembers, if it is one of a graph. A step of a handler's own may be called
    like it; other steps are not even read, which may be large."""
    told = step.result if step.kind == "call" and ASKS in step.name else None
    return told[SPENT] if isinstance(told, dict) and told.keys() == {GENERATIONS, SPENT} else None
