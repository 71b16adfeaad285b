"""The form of a source that is listened to, made from the model of its config. Its password has a page of its own."""

from typing import Any

from django import forms
from pydantic import BaseModel

from project.lib.problem import Problem
from triggers.forms.config import ConfigForm
from triggers.forms.fields import DeskForm, Wrong
from triggers.forms.named import FOLD, KEPT_APART, SourceForm
from triggers.models import Source
from triggers.sources.database import TableSource
from triggers.sources.kafka import TopicSource
from triggers.sources.mail import MailSource
from triggers.sources.stream import StreamSource

MODELS: dict[str, type[BaseModel]] = {
    "email": MailSource,
    "redis_stream": StreamSource,
    "kafka": TopicSource,
    "database": TableSource,
}


class ListenedForm(SourceForm):
    """What every source has, and `inner`: a field for each member of the config."""

    folds = dict.fromkeys(KEPT_APART, FOLD)

    def __init__(self, data: Any = None, *, source: Source | None = None, kind: str = "") -> None:
        super().__init__(data, source=source, kind=kind)
        self.inner = ConfigForm(MODELS[self.kind], data, config=source.config if source else None)

    def under(self, prefix: str) -> None:
        super().under(prefix)
        self.inner.prefix = f"{prefix}-{self.inner.prefix}"

    @property
    def wrong(self) -> list[Wrong]:
        return [*self.inner.wrong, *super().wrong]

    def is_valid(self) -> bool:
        return all([self.inner.is_valid(), super().is_valid()])

    def blame_only(self, *names: str) -> None:
        super().blame_only(*names)
        self.inner.blame_only()

    def refuse(self, problem: Problem) -> None:
        field = str(problem.facts.get("field") or "")
        if field in self.inner.fields:
            self.inner.add_error(field, problem.detail.removeprefix(f"{field}: "))
        else:
            super().refuse(problem)

    def row_fields(self) -> dict[str, Any]:
        return super().row_fields() | {"config": self.inner.config()}


class PasswordForm(DeskForm):
    """The password with which the desk signs in over there; it is written once and never shown again."""

    value = forms.CharField(
        label="Password",
        max_length=1000,
        strip=False,
        help_text="It is kept encrypted, and replaces the one before.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    keep = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean_keep(self) -> str:
        return "no"  # one is enough: the desk itself is who uses it
