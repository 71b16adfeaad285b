"""Where a source reads from: its config checked member by member, and addresses that may be called at all."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from pydantic import BaseModel, ConfigDict, ValidationError

from project.lib.addresses import AllowList
from project.lib.egress import EgressError, Guard, system_resolver
from project.lib.faults import first_fault
from triggers.errors import NotValid


class FarSide(BaseModel):
    """The `config` of a source that is listened to; the credentials are the source's secret, never in here."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


F = TypeVar("F", bound=FarSide)


def parse(model: type[F], config: Mapping[str, Any]) -> F:
    """Raises NotValid, naming the field, when the config makes no sense."""
    try:
        return model.model_validate(dict(config))
    except ValidationError as error:
        place, said = first_fault(error)
        field = place.partition(".")[0] or next(iter(model.model_fields))
        raise NotValid(f"{field}: {said}", field=field) from error


def split(url: str) -> SplitResult:
    """The parts of an address. Raises ValueError for what is none, also for a port that is none."""
    parts = urlsplit(url)
    _ = parts.port
    return parts


def address_of(url: str, schemes: Collection[str], written: str) -> SplitResult:
    """The parts of an address of one of these schemes, which holds no password. Raises ValueError, in words."""
    parts = split(url)
    if parts.scheme not in schemes:
        raise ValueError(f"it is written {written}")
    if parts.password:
        raise ValueError("it holds a password; give that as the secret instead")
    return parts


def addresses(host: str, port: int, usual: tuple[int, ...], trade: str) -> list[str]:
    """All addresses of `host`, each public or named in EGRESS_ALLOW. Raises Forbidden, Unreachable."""
    is_usual: Callable[[int], bool] = usual.__contains__
    return Guard(AllowList(settings.EGRESS_ALLOW), system_resolver, is_usual, trade).addresses(host, port)


def refuse_closed(field: str, host: str, port: int, usual: tuple[int, ...], trade: str) -> None:
    """Raises NotValid, naming the field, for an address that may not be called."""
    try:
        addresses(host, port, usual, trade)
    except EgressError as error:
        raise NotValid(f"{field}: {host}:{port}: {error}", field=field) from error
