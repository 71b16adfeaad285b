"""May the desk call the far side of a connection? Asked when one is saved, so that nobody finds out at night."""

from typing import Any

from approvals.connectors.http import origin
from approvals.connectors.mail import port_of
from approvals.errors import NotValid
from project.lib import smtp
from project.lib.egress import EgressError, Forbidden, check_url


def check_config(config: dict[str, Any] | None) -> None:
    """Raises NotValid for an `api_url`, a mail server or one of `hosts` that the desk may not call, or cannot read.

    A name that cannot be resolved right now is taken; each call checks it again."""
    given = config or {}
    if given.get("api_url"):
        check_web(str(given["api_url"]), "api_url")
    if given.get("host"):
        check_mail(given)
    check_hosts(given.get("hosts", []))


def check_web(url: str, field: str) -> None:
    try:
        check_url(url)
    except Forbidden as error:
        raise NotValid(f"The address cannot be used: {error}.", field=field) from None
    except EgressError:
        return


def check_mail(config: dict[str, Any]) -> None:
    try:
        smtp.check_server(str(config["host"]), port_of(config))
    except (Forbidden, ValueError) as error:
        raise NotValid(f"The mail server cannot be used: {error}.", field="host") from None
    except EgressError:
        return


def check_hosts(hosts: Any) -> None:
    try:
        for entry in hosts:
            origin(entry)
    except (TypeError, ValueError, AttributeError):
        raise NotValid("Each of `hosts` is written host, host:port or https://host.", field="hosts") from None
