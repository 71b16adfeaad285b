"""The forms of one page, "When … do …", asked and read together."""

from typing import Any

from project.lib.problem import Problem
from triggers.forms.config import ConfigForm
from triggers.forms.fields import DeskForm, Wrong
from triggers.forms.named import SourceForm
from triggers.forms.source import KINDS, form_for
from triggers.forms.trigger import MAKE, TriggerForm
from triggers.models import Trigger

LOOKS = ("look", "try", "capture")  # what a page is asked for that saves nothing


class Editor:
    """The trigger's form, its handler's config, and the source that is made with it.

    With `look` in the data nothing was said to be finished yet: a part that was not on the page before starts as it is
    for a new one, and no field is blamed for being empty."""

    def __init__(self, data: Any = None, *, trigger: Trigger | None = None, initial: Any = None) -> None:
        self.trigger, self.data = trigger, data
        self.form = TriggerForm(data, trigger=trigger, initial=initial)
        self.made = self.source_form()
        self.config = self.config_form()

    @property
    def is_looking(self) -> bool:
        return self.data is not None and any(word in self.data for word in LOOKS)

    def was_shown(self, name: str, value: str) -> bool:
        return self.data is not None and (not self.is_looking or self.data.get(name) == value)

    def source_form(self) -> SourceForm | None:
        """The form of a source that is to be made; None when one is picked."""
        kind = self.form.chosen_source.removeprefix(MAKE)
        if not self.form.chosen_source.startswith(MAKE) or kind not in KINDS:
            return None
        made = form_for(kind)(self.data if self.was_shown("made", kind) else None, kind=kind)
        made.under("new")
        return made

    def config_form(self) -> ConfigForm | None:
        """The form of the handler's config; None when the handler takes any object."""
        model, handler = self.form.model, self.form.chosen_handler
        if model is None:
            return None
        same = self.trigger is not None and self.trigger.handler == handler
        told = self.trigger.config if self.trigger and same else {}
        return ConfigForm(model, self.data if self.was_shown("config_of", handler) else None, config=told)

    @property
    def config_as_it_stands(self) -> dict[str, Any]:
        """What is in the fields of the config, right or wrong."""
        return {name: self.config[name].value() for name in self.config.fields} if self.config else {}

    @property
    def parts(self) -> list[DeskForm]:
        return [part for part in (self.form, self.made, self.config) if part is not None]

    @property
    def wrong(self) -> list[Wrong]:
        """What kept it from being saved; nothing was kept from it while it is only looked at."""
        return [] if self.is_looking else [one for part in self.parts for one in part.wrong]

    def is_valid(self) -> bool:
        """Every part is asked, so that everything that is wrong is said at once."""
        verdicts = [part.is_valid() for part in self.parts]
        return all(verdicts)

    def blame_only(self, *names: str) -> None:
        """Keep the errors of these fields of the trigger; the others are not finished yet."""
        for part in self.parts:
            part.blame_only(*(names if part is self.form else ()))

    def row_fields(self) -> dict[str, Any]:
        """What the trigger stores; `new_source` is what its source is made of."""
        fields = self.form.row_fields()
        if self.config is not None:
            fields["config"] = self.config.config()
        if self.made is not None:
            slug, kind = self.made.cleaned_data["slug"], self.made.kind
            fields |= {"source": slug, "new_source": {"slug": slug, "kind": kind, **self.made.row_fields()}}
        return fields

    def refuse(self, problem: Problem) -> None:
        """Beside the field it is about."""
        part = self.made if self.made is not None and problem.facts.get("of") == "source" else self.form
        part.refuse(problem)
