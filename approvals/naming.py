"""What an act without a key of its own is called: by its place in its run; or, where whoever is run again may come to
the same effect by another way, by what it is: its kind, its connection and its arguments, and nothing that was said of
it."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count

from django.db.models import Q, QuerySet

from approvals.models import Act, Action
from approvals.models.action import HOLDS
from approvals.wish import Wish
from triggers.models import Run

by_content: ContextVar[bool] = ContextVar("by_content", default=False)


@contextmanager
def known_by_content() -> Iterator[None]:
    """Meanwhile an act without a key is known by what it is, and not by its place, as a model asks for it."""
    before = by_content.set(True)
    try:
        yield
    finally:
        by_content.reset(before)


def is_known_by_content(wish: Wish) -> bool:
    return wish.key is None and by_content.get()


def key_of(run: Run, step: str, wish: Wish) -> str:
    """The key under which `run` asks for this at `step`, as long as nobody else asks for anything meanwhile."""
    if wish.key is not None:
        return wish.key
    return by_what_it_is(run, step, wish) if by_content.get() else by_place(run, step)


def by_place(run: Run, step: str) -> str:
    return f"R-{run.origin_id}/{step}"


def by_what_it_is(run: Run, step: str, wish: Wish) -> str:
    """The same effect once more in one run is another one, `…#2`; and the same again when that run is run again. What
    came to nothing gives its key up."""
    acts = list(held_by_kin(run, wish))
    own = {act.action_id for act in acts if act.run_id == run.pk and act.name != step}
    name = f"R-{run.origin_id}/{wish.kind.name}/{content_of(wish)}"
    for act in acts:
        if act.action_id not in own and is_same(act.action, name, wish):
            return act.action.key
    held = {act.action.key for act in acts}
    return next(key for key in numbered(name) if key not in held)


def held_by_kin(run: Run, wish: Wish) -> QuerySet[Act]:
    """What this run and all that repeat, or are repeated by, it have asked for of this kind there, and what stands."""
    holding = Action.objects.filter(HOLDS, kind=wish.kind.name, connection=wish.connection)
    kin = Q(run=run.origin_id) | Q(run__origin=run.origin_id)
    return Act.objects.filter(kin, action__in=holding).select_related("action").order_by("action")


def is_same(action: Action, name: str, wish: Wish) -> bool:
    """Known under this name; or, by an older desk under another one, with these very arguments."""
    if action.key == name or action.key.startswith(f"{name}#"):
        return True
    by_content_before = action.key_is_implicit and action.key != f"R-{action.origin_run}/{action.step}"
    return by_content_before and wish.is_that_of(action)


def content_of(wish: Wish) -> str:
    """A hash that is the same for the same effect, however it was written; hex."""
    what = {name: value for name, value in wish.arguments.items() if name not in wish.kind.manner}
    slug = wish.connection.slug if wish.connection else ""
    return hashlib.sha256(json.dumps([wish.kind.name, slug, what], sort_keys=True).encode()).hexdigest()[:32]


def numbered(name: str) -> Iterator[str]:
    yield name
    for number in count(2):
        yield f"{name}#{number}"
