"""Libraries that most processes of a desk never use are loaded when they are used first, not when it starts.

    if TYPE_CHECKING:
        import apprise
    else:
        apprise = deferred("apprise")

A name in it is looked up at every use, so classes and constants of it belong into functions, not beside them."""

from importlib import import_module
from types import ModuleType
from typing import Any


class Deferred(ModuleType):
    """Stands for the module of its name; safe in threads, since Python's own import is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def deferred(name: str) -> Any:
    """The module `name` of a library, loaded at the first use of something in it."""
    return Deferred(name)
