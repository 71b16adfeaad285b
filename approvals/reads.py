"""What handlers may look at on the far side, inside a step: reads change nothing and need no nod."""

from approvals.connectors import github
from approvals.kinds import CALL_TIMEOUT
from approvals.models import Connection


def github_file(repo: str, path: str, ref: str, *, connection: str = "", made_up: str = "") -> str | None:
    """The text of a file on a branch, or None. A practice connection holds no files: it answers with `made_up`.

    Raises NoConnection, and what a far side that is down raises (NotSent, Refused): the step is tried again."""
    row = Connection.objects.all().named("github", connection)
    if row.practice:
        return made_up
    return github.read_file(row.far(CALL_TIMEOUT), repo, path, ref)
