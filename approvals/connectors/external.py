"""`external.<anything>`: what a program outside does itself, once people have nodded.

The desk sends nothing anywhere: to carry it out is to say that it was granted, and whoever asked reads that."""

import json
import re
from functools import lru_cache
from typing import Any

from pydantic import ConfigDict, JsonValue, model_validator

from approvals import hiding
from approvals.kinds import Arguments, Far, Kind, Result, register_family
from approvals.tiers import Tier

FAMILY = "external"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")  # of an argument
MOST = 100  # arguments


class Call(Arguments):
    """Arguments by name, any JSON. Members called like credentials are hidden from people, as everywhere."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, JsonValue]

    @model_validator(mode="after")
    def has_names(self) -> "Call":
        given = self.__pydantic_extra__
        odd = [name for name in given if not NAME.fullmatch(name)]
        if odd or len(given) > MOST:
            raise ValueError(f"at most {MOST} arguments, each called like a variable")
        return self


def grant(far: Far, call: Call, key: str) -> Result:
    return {"granted": True}


def title(name: str, call: Call) -> str:
    """`deploy(service: "shop", version: 7)`, cut off like every title."""
    shown, _ = hiding.hide(call.__pydantic_extra__)
    words = (f"{argument}: {json.dumps(value, ensure_ascii=False)}" for argument, value in shown.items())
    return f"{name.removeprefix(f'{FAMILY}.')}({', '.join(words)})"


def preview(call: Call) -> list[dict[str, str]]:
    """Every argument under its name; a text as it is."""
    return [block(name, value) for name, value in call.__pydantic_extra__.items()]


def block(name: str, value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"label": name, "text": value, "form": "code"}
    return {"label": name, "text": json.dumps(value, indent=2, ensure_ascii=False), "form": "json"}


@lru_cache(maxsize=256)
def kind(name: str) -> Kind:
    return Kind(
        name=name,
        system="",
        tier=Tier.HIGH,
        safety="natural",
        arguments=Call,
        deliver=grant,
        title=lambda call: title(name, call),
        preview=preview,
        pretend=lambda call, number: {"granted": True},
        hides=True,
        reversible="Only the program that asks knows; it does this itself.",
        blast_radius="whatever the program that asks can reach",
    )


register_family(FAMILY, kind)
