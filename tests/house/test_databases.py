"""A test that skips itself on one database is run on the other one."""

from tests.house import tree
from tests.suite import ON_POSTGRES

SKIPS = 'if connection.vendor != "postgresql":'


def test_what_is_about_postgresql_is_run_there():
    tests = [path for path in (tree.ROOT / "tests").rglob("test_*.py") if SKIPS in path.read_text()]
    named = {str(path.relative_to(tree.ROOT)) for path in tests if path.parent.name != "house"}
    assert named
    assert {name for name in named if not name.startswith(ON_POSTGRES)} == set()
