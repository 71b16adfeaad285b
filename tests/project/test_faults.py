"""What pydantic refuses is told by its place and our own sentence, at every door alike, without the value."""

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from approvals.errors import NotValid as ActionNotValid
from approvals.kinds import KINDS
from project.lib.faults import faults, first_fault
from triggers import configure, registry
from triggers.errors import NotValid


class Greeting(BaseModel):
    names: list[str]

    @field_validator("names")
    @classmethod
    def short(cls, value: list[str]) -> list[str]:
        if len(value) > 1:
            raise ValueError("one name is enough")
        return value


def test_each_fault_has_its_place_and_our_words():
    with pytest.raises(ValidationError) as refused:
        Greeting.model_validate({"names": ["Ann", {"secret": "s3cr3t"}]})
    assert first_fault(refused.value) == ("names.1", "Input should be a valid string")
    assert "s3cr3t" not in str(list(faults(refused.value)))
    with pytest.raises(ValidationError) as refused:
        Greeting.model_validate({"names": ["Ann", "Ben"]})
    assert list(faults(refused.value)) == [(("names",), "one name is enough")]


def test_a_handlers_config_and_an_actions_arguments_are_refused_in_the_same_words(monkeypatch):
    monkeypatch.setitem(registry.HANDLERS, "greet", registry.Handler(name="greet", function=print, config=Greeting))
    with pytest.raises(NotValid, match=r"^names: one name is enough$"):
        configure.check_handler("greet", {"names": ["Ann", "Ben"]})
    with pytest.raises(ActionNotValid, match=r"^email\.send: to\.0: must be a bare address"):
        KINDS["email.send"].read({"to": ["nobody"], "subject": "Hi", "body": "Hi"})
