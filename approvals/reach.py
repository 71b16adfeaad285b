"""May the desk call the far side of a connection? Asked when one is saved, so that nobody finds out at night."""

from typing import Any

from approvals.errors import NotValid
from project.lib.egress import EgressError, Forbidden, check_url


def check_address(config: dict[str, Any] | None) -> None:
    """Raises NotValid for an `api_url` that is no web address, or on the inside of the network.

    A name that cannot be resolved right now is taken; each call checks it again."""
    url = (config or {}).get("api_url")
    if not url:
        return
    try:
        check_url(str(url))
    except Forbidden as error:
        raise NotValid(f"The API address cannot be used: {error}.", field="api_url") from None
    except EgressError:
        return
