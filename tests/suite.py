"""`python -m tests.suite`: the whole suite on SQLite and, at the same time, what must hold on PostgreSQL too.

Both at once, because one alone leaves a core without work: real desks that are broken on purpose mostly wait. What
comes after the command (a file, `-k word`) chooses from the tests on SQLite. The pass on PostgreSQL is told at its end.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from tests import postgres

ON_POSTGRES = (
    *("tests/spec", "tests/races", "tests/plans"),
    *("tests/contract/test_lists.py", "tests/triggers/test_fire.py"),
    *("tests/triggers/test_waking.py", "tests/triggers/test_quiet_end.py", "tests/project/test_hasty.py"),
)


def passed(processes: int, *arguments: str) -> list[str]:
    """A file stays in one process, so that its desk is started once; they come in the order of tests/order.py.

    A process that ends before its tests ends the suite: pytest-xdist would start another one and wait for ever.
    """
    shared = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder", "--max-worker-restart", "0"]
    return [sys.executable, "-m", "pytest", "-q", *shared, *arguments]


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a PostgreSQL for both; empty where none is installed, which only CI takes for a failure."""
    try:
        postgres.program("initdb")
    except postgres.NoPostgres as missing:
        print(f"nightdesk: {missing}; nothing is tested on it", file=sys.stderr)
        if os.environ.get("CI") == "true":
            sys.exit(1)
        yield ""
        return
    with postgres.serve() as address:
        yield address


def main(chosen: list[str]) -> int:
    postgres.end_in_order()
    processes = int(os.environ.get("TEST_PROCESSES", "3"))
    with contextlib.ExitStack() as stack:
        told = stack.enter_context(tempfile.TemporaryFile("w+"))
        address = stack.enter_context(server())
        beside = None
        if address:
            command, given = passed(max(1, processes - 1), *ON_POSTGRES), os.environ | {"DATABASE_URL": address}
            beside = stack.enter_context(subprocess.Popen(command, env=given, stdout=told, stderr=subprocess.STDOUT))
            stack.callback(beside.terminate)
        print("== on SQLite", flush=True)
        on_sqlite = subprocess.run(passed(processes, *chosen), env=os.environ | {"TEST_POSTGRES": address}, check=False)
        on_postgres = beside.wait() if beside else 0
        told.seek(0)
        print("== on PostgreSQL", told.read(), sep="\n", flush=True)
        return on_sqlite.returncode or on_postgres


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
