"""Effects of one run known by what they are, and not by their place: a run that is run again may come to the same one
by another way."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any


def content_of(*parts: Any) -> str:
    """A hash that is the same for the same effect, however it was written; hex."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class Contents:
    """What a run has asked for and done, by content. The same once more is another effect, `…#2`, unless the first came
    to nothing."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def keys(self, asked: Iterable[str]) -> list[str]:
        """The keys of what is asked for side by side, in its order; empty for what has no effect, whose content is."""
        seen, keys = Counter(self.done), []
        for content in asked:
            seen[content] += 1
            keys.append(content if not content or seen[content] == 1 else f"{content}#{seen[content]}")
        return keys

    def note(self, contents: Iterable[str]) -> None:
        """These were done."""
        self.done.update(contents)
