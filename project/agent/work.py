"""An agent's run: ask the model, do what it asks for as far as it may, and tell it what became of that."""

import time
from functools import partial
from typing import Any

from project.agent import budget, calls, plan, provider
from project.agent.budget import Used
from project.agent.turns import Call, Faults, Turn, calls_in, newest, size, text_in
from triggers.durable import Durable
from triggers.errors import GivenBack, Permanent

PATIENCE = 120.0  # seconds one request may take, and half of what a try of the run may
TRIES = 5  # of one request while the model is busy
SHORTER = 3  # times a conversation that is too long is halved
EMPTY = "You answered nothing. Call a tool, or say what you found."
BY_TOOL = f"Give your answer by calling {plan.ANSWER}."


class CutOff(Permanent):
    """The answer was cut off at its longest, twice; a call that was cut off is never run."""


class NoAnswer(Permanent):
    """The model gave no answer that can be used."""


class TooLong(Permanent):
    """What the model must be told does not fit into it, however much is left out."""


def work(run: Durable) -> dict[str, Any]:
    """Turn after turn until it answers without asking for anything. Raises LimitReached at the end of its budget."""
    return Talk(run, plan.agreed(run)).to_its_end()


class Talk:
    """One conversation. All it knows it has from steps, so that a replay comes to the same place."""

    def __init__(self, run: Durable, agreed: dict[str, Any]) -> None:
        self.run = run
        self.plan = agreed
        self.used = Used(agreed)
        self.faults = Faults()
        self.turns: list[Turn] = []
        self.room: int = agreed["limits"]["context_tokens"]
        self.number = 0
        self.began = time.monotonic()

    def to_its_end(self) -> dict[str, Any]:
        while True:
            self.number += 1
            response = self.whole_answer()
            asked, words = calls_in(response), text_in(response)
            if asked:
                answer = self.answered(response, asked)
                if answer is not None:
                    return self.told(answer)
            elif words and not self.plan["answers_by_tool"]:
                return self.told(words)
            else:
                self.faults.add([Call("", "no call", words)])
                self.turns.append({"response": response, "results": [], "say": BY_TOOL if words else EMPTY})

    def answered(self, response: dict[str, Any], asked: list[Call]) -> dict[str, Any] | None:
        """Run the calls of one turn; the final answer, if it is that."""
        try:
            answer = calls.answer_in(self.plan, asked)
        except calls.Wrong:
            answer = None  # it is told so, as of any other call
        if answer is not None:
            return answer
        self.used.check_calls(len(asked))
        results, wrong = calls.perform(self.run, self.plan, self.number, asked)
        self.faults.add(wrong)
        self.turns.append({"response": response, "results": results, "say": ""})
        return None

    def told(self, answer: Any) -> dict[str, Any]:
        used = {"requests": self.used.requests, "calls": self.used.calls, "tokens": self.used.tokens}
        facts = {"by": self.plan["model"], "version": self.plan["version"], **used, "cost": str(self.used.cost)}
        return {"answer": answer, **facts}

    # Asking

    def whole_answer(self) -> dict[str, Any]:
        """The response of this turn. One that was cut off is asked for once more, with twice the room."""
        name, tokens = f"turn {self.number}", self.plan["limits"]["answer_tokens"]
        response = self.fitting_answer(name, tokens)
        if response["finish_reason"] == "length":
            response = self.fitting_answer(f"{name} with more room", 2 * tokens)
        if response["finish_reason"] == "length":
            what = "truncated tool call" if calls_in(response) else "truncated answer"
            raise CutOff(f"{what}: it was cut off at {2 * tokens} tokens")
        if response["finish_reason"] in ("content_filter", "error"):
            raise NoAnswer(f"the model gave no answer: {response['finish_reason']}")
        return response

    def fitting_answer(self, name: str, tokens: int) -> dict[str, Any]:
        """What does not fit into the model is never sent again as it was, only shorter."""
        for shorter in range(SHORTER + 1):
            kept = newest(self.turns, self.room)
            answer = self.patient_answer(f"{name} shorter {shorter}" if shorter else name, kept, tokens)
            if "overflow" not in answer:
                self.used.add(answer)
                response: dict[str, Any] = answer["response"]
                return response
            if len(kept) < 2:
                break
            self.room = sum(map(size, kept)) // 2
        raise TooLong(f"the model takes no more: {answer['overflow']}")

    def patient_answer(self, name: str, kept: list[Turn], tokens: int) -> dict[str, Any]:
        """While the model is busy only this request is made again, and no worker waits meanwhile."""
        for number in range(1, TRIES + 1):
            step = name if number == 1 else f"{name} try {number}"
            try:
                answer: dict[str, Any] = self.run.step(step, partial(self.ask, step, kept, tokens))
            except (provider.ModelBusy, budget.DayReserved) as busy:
                if number == TRIES:
                    raise budget.LimitReached(str(busy)) if isinstance(busy, budget.DayReserved) else busy from None
                row = self.run.row  # a later attempt, or who runs it again, has pauses of its own
                self.run.sleep(f"{name} pause {number} of R-{row.pk} attempt {row.attempt}", busy.after * number)
            else:
                return answer
        raise AssertionError("the last try either answers or raises")

    def ask(self, step: str, kept: list[Turn], tokens: int) -> dict[str, Any]:
        """The request itself: only a step that is not remembered comes here."""
        self.used.check()
        limits, is_cut, patience = self.plan["limits"], len(kept) < len(self.turns), self.patience()
        with budget.reserved(self.run.row, limits, *self.at_most(kept, tokens), patience):
            answer = provider.request(self.plan, kept, answer_tokens=tokens, patience=patience, is_cut=is_cut)
            if "overflow" in answer:
                return answer
            answer["cost"] = budget.price(limits, answer)
            budget.note(self.run.row, step, answer["model"], answer)
        budget.check_priced(limits, answer["cost"])
        return answer

    def at_most(self, kept: list[Turn], tokens: int) -> tuple[int, str | None]:
        """About how many tokens the next request comes to, and dollars; None when nobody knows its price."""
        told = {name: self.plan[name] for name in ("instructions", "prompt", "tools")}
        tokens_in = size(told) + sum(map(size, kept))
        counted = {"tokens_in": tokens_in, "tokens_out": tokens}
        cost = provider.estimate(self.plan["model"], **counted)
        return tokens_in + tokens, budget.price(self.plan["limits"], {**counted, "cost": cost})

    def patience(self) -> float:
        """Seconds for the next request. Raises GivenBack when this worker's time would end in the middle of it: whoever
        takes the run up next has the whole time again, and an answer that was paid for is not lost."""
        whole = self.run.row.flow.timeout
        one = min(PATIENCE, whole / 2)
        if time.monotonic() - self.began > whole - one:
            raise GivenBack
        return one
