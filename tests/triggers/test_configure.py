"""A source and a trigger are checked before BEGIN: no filter, file or handler's own code inside a transaction."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from pydantic import BaseModel, field_validator

from tests import builders, signers
from triggers import configure, registry
from triggers.errors import NotValid, SlugTaken, Stale
from triggers.models import Source, Trigger

pytestmark = pytest.mark.django_db(transaction=True)
asked: list[bool] = []  # whether a transaction was open when the handler's own code was asked


class Config(BaseModel):
    """A config whose code notes where it runs."""

    room: str = "ops"

    @field_validator("room")
    @classmethod
    def note(cls, value: str) -> str:
        asked.append(connection.in_atomic_block)
        return value


@pytest.fixture(autouse=True)
def _handler(monkeypatch: pytest.MonkeyPatch) -> None:
    asked.clear()
    code = registry.Handler(name="noted", function=lambda run: None, config=Config)
    monkeypatch.setitem(registry.HANDLERS, "noted", code)


def files(folder: Path, slug: str = "files") -> dict[str, Any]:
    return {"slug": slug, "kind": "file", "config": {"path": str(folder)}}


def test_a_trigger_is_checked_before_its_transaction_also_with_the_source_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "FILE_ROOTS", [str(tmp_path)])
    looked: list[bool] = []
    real = configure.CHECKED["file"]
    monkeypatch.setitem(
        configure.CHECKED, "file", lambda config: looked.append(connection.in_atomic_block) or real(config)
    )
    wish = {"source": "files", "handler": "noted", "config": {"room": "night"}, "filter": "event.data.size > 0"}
    row = configure.make_trigger(by=None, slug="seen", new_source=files(tmp_path), **wish)
    other = files(tmp_path, "more")
    configure.change_trigger(row, by=None, version=1, new_source=other, source="more", config={"room": "day"})
    source = Source.objects.get(slug="files")
    configure.change_source(source, by=None, version=1, config={"path": str(tmp_path), "recursive": True})
    assert looked == [False, False, False]
    assert asked == [False, False]


def test_neither_is_saved_when_one_of_them_is_refused() -> None:
    builders.source("taken")
    made = {"slug": "taken", "kind": "webhook", "provider": "generic"}
    with pytest.raises(SlugTaken) as refused:
        configure.make_trigger(by=None, slug="both", new_source=made, source="taken", handler="noted")
    assert refused.value.facts["of"] == "source"
    assert not Trigger.objects.exists()
    configure.make_trigger(by=None, slug="one", source="taken", handler="noted")
    fresh = {"slug": "fresh", "kind": "webhook", "provider": "generic"}
    with pytest.raises(SlugTaken):
        configure.make_trigger(by=None, slug="one", new_source=fresh, source="fresh", handler="noted")
    assert not Source.objects.filter(slug="fresh").exists()


def test_what_was_changed_since_it_was_read_is_stale_however_good_the_change_is() -> None:
    builders.source("github")
    row = configure.make_trigger(by=None, slug="seen", source="github", handler="noted")
    read = Trigger.objects.get(pk=row.pk)
    configure.change_trigger(row, by=None, version=1, priority=1)
    with pytest.raises(Stale):
        configure.change_trigger(read, by=None, version=1, priority=2)
    assert Trigger.objects.get(pk=row.pk).priority == 1


@pytest.mark.parametrize("pem", ["no certificate", signers.certificate_of(signers.p256("x")).decode()])
def test_a_certificate_that_could_prove_nothing_is_refused_when_it_is_saved(pem: str) -> None:
    with pytest.raises(NotValid, match="a certificate of an RSA key in PEM") as refused:
        configure.make_source(by=None, slug="sns", kind="webhook", provider="aws_sns", config={"certificate": pem})
    assert refused.value.facts["field"] == "certificate"
