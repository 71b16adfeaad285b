"""In what order the files of the suite are taken up by its processes.

Two cores have nothing to spare: a real desk that is broken and mends itself mostly waits, so such a file begins
early and the rest of the suite runs meanwhile. Begun last, it would leave the other core without work.
"""

from collections import Counter

import pytest

# The longest first; files that are not named here follow.
FIRST = (
    "tests/chaos/test_kill_loop.py",
    "tests/browser/test_deciding.py",
    "tests/chaos/test_the_database_is_lost.py",
    "tests/chaos/test_workers_are_lost.py",
    "tests/browser/",
    "tests/chaos/test_triage_survives_its_workers.py",
    "tests/project/test_up.py",
    "tests/chaos/",
    "tests/project/test_connections_stay_few.py",
    "tests/model/",
    "tests/races/",
    "tests/plans/",
)


def sort(items: list[pytest.Item]) -> None:
    """What takes long begins first; the tests of a file keep their order."""
    items.sort(key=lambda item: rank(item.nodeid))


def rank(nodeid: str) -> int:
    return next((place for place, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))


def each_has_its_name(items: list[pytest.Item]) -> None:
    """The processes of the suite are told by name what to run: of two tests with one name, one would never be run."""
    names = Counter(item.nodeid for item in items)
    if twice := [name for name, times in names.items() if times > 1]:
        raise pytest.UsageError(f"several tests are called {', '.join(twice)}")
