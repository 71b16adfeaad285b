"""Real desks that are broken on purpose, and a GitHub that can be caught between doing and answering."""

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.github import FakeGitHub
from tests.processes import Desk, desk
from tests.recorder import Recorder, Reply

PATIENCE = 60  # seconds after which a held call is answered all the same

# Real calls may take 30 s before they count as lost; here the far side is 1 ms away.
SHORT_CALLS = """
from dataclasses import replace
from datetime import timedelta

from approvals import kinds
from approvals.connectors import github

for name in ("github.comment", "github.create_pr"):
    kinds.KINDS[name] = replace(kinds.KINDS[name], timeout=timedelta(seconds=2))
"""


@dataclass
class SlowGitHub(FakeGitHub):
    """Answers late when asked to: the work is done, and the caller does not know it yet."""

    held: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    holding: str = ""

    def hold(self, ending: str) -> None:
        """The next POST whose path ends so is carried out and then not answered until `let_go()`."""
        self.held.clear()
        self.released.clear()
        self.holding = ending

    def let_go(self) -> None:
        self.released.set()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        reply = super().answer(method, path, headers, body)
        if method == "POST" and self.holding and path.endswith(self.holding):
            self.holding = ""
            self.held.set()
            self.released.wait(PATIENCE)
        return reply


@pytest.fixture
def shop() -> Iterator[Desk]:
    """A desk on SQLite that is not started yet, with quick leases and ticks."""
    with desk(EGRESS_ALLOW="127.0.0.1") as made:
        made.handlers(SHORT_CALLS, name="short_calls")
        yield made
        made.tell()


@pytest.fixture
def github() -> SlowGitHub:
    return SlowGitHub()


@pytest.fixture
def far_side(github: SlowGitHub) -> Iterator[Recorder]:
    with Recorder(github.answer) as far:
        yield far


def connect(shop: Desk, far: Recorder) -> None:
    """The tour's practice connection to GitHub becomes a real one, to the recording server."""
    config = json.dumps({"api_url": far.url})
    shop.python(f"""
        import json
        from approvals.models import Connection
        row = Connection.objects.get(slug="practice-github")
        row.change(by=None, practice=False, config=json.loads({config!r}), secrets={{"token": "for tests only"}})
    """)
