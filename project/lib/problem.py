"""Refusals as RFC 9457 problems: one shape for the API, one family of classes for the code."""

from typing import Any, ClassVar


class Problem(Exception):
    """A refusal with a code and an HTTP status; the docstring of the subclass is the sentence people read."""

    code: ClassVar[str] = "problem"
    http: ClassVar[int] = 400

    def __init__(self, detail: str = "", **facts: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.facts = facts
        super().__init__(self.detail)

    def body(self) -> dict[str, Any]:
        """The RFC 9457 object, with the facts beside the fixed members; a row's own status is `row_status` there."""
        title = (type(self).__doc__ or self.code).strip().splitlines()[0]
        fixed = {"type": f"/problems/{self.code}", "title": title, "status": self.http, "code": self.code}
        facts = {"row_status" if name == "status" else name: value for name, value in self.facts.items()}
        return {**facts, **fixed, "detail": self.detail}
