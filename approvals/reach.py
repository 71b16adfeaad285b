"""What a connection must be before it is saved, so that nobody finds out at night; pages and API ask the same."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings

from approvals.connectors import kafka as topics
from approvals.connectors.http import origin
from approvals.connectors.mail import bare, port_of, security_of
from approvals.connectors.mcp import tiers_of
from approvals.errors import NotValid
from project.lib import kafka, smtp
from project.lib.egress import EgressError, Forbidden, check_url

NEEDED = {  # one of these secrets, and what is said without
    "github": (("token",), "a token"),
    "slack": (("webhook_url", "token"), "a webhook address, or a token and a channel"),
    "feishu": (("webhook_url",), "a webhook address"),
    "wecom": (("webhook_url",), "a webhook address"),
    "dingtalk": (("webhook_url",), "a webhook address"),
    "telegram": (("token",), "the bot's token"),
    "stripe": (("key",), "a key"),
}
LONGEST_WINDOW = 30 * 24 * 3600  # seconds a far side may be said to remember a key
TEXTS = ("url", "command", "api_url", "host", "security", "mechanism", "username", "sender", "channel", "app_id")


def check_connection(
    system: str, config: Mapping[str, Any], secrets: Mapping[str, Any] | None, *, practice: bool
) -> None:
    """Raises NotValid for what is missing or wrong, naming the member. Practice may lack what only a delivery needs.

    `secrets` is None when those that are stored cannot be read: there are some, and that is all that is known."""
    known = secrets or {}
    check_shape(system, config)
    check_web(config.get("api_url"), "api_url")
    check_web(known.get("webhook_url"), "webhook_url")
    check_hosts(config.get("hosts") or [])
    if system == "http" and (secrets is None or secrets) and not config.get("hosts"):
        raise NotValid("Name the hosts to which the headers may go.", field="hosts")
    if system == "slack" and known.get("token") and not config.get("channel"):
        raise NotValid("With a token the channel must be named.", field="channel")
    if system == "feishu" and known.get("app_secret") and not config.get("app_id"):
        raise NotValid("With an app's secret its id is needed.", field="app_id")
    if system == "smtp":
        check_mail(config, practice=practice)
    if system == "kafka":
        check_cluster(config, known, practice=practice)
    if system == "mcp":
        check_server_of_tools(config, known, practice=practice)
    if system in NEEDED and secrets is not None and not practice:
        names, words = NEEDED[system]
        if not any(known.get(name) for name in names):
            raise NotValid(f"A connection that is not for practice needs {words}.", field=names[0])


def check_shape(system: str, config: Mapping[str, Any]) -> None:
    """Each member as it is written on the page; what is left empty is not there."""
    for name in TEXTS:
        if config.get(name) is not None and not isinstance(config[name], str):
            raise NotValid(f"`{name}` is a text.", field=name)
    port, hosts, brokers = config.get("port"), config.get("hosts"), config.get("brokers")
    if brokers is not None and not (isinstance(brokers, list) and all(isinstance(each, str) for each in brokers)):
        raise NotValid("`brokers` is a list of texts.", field="brokers")
    if port not in (None, "") and (type(port) is not int or port < 1):  # True is an int, too
        raise NotValid("The port is a whole number.", field="port")
    if hosts is not None and not (isinstance(hosts, list) and all(isinstance(each, str) for each in hosts)):
        raise NotValid("`hosts` is a list of texts.", field="hosts")
    window = config.get("key_window")
    if window is not None and (type(window) is not int or not 0 <= window <= LONGEST_WINDOW):
        raise NotValid(f"`key_window` is 0 to {LONGEST_WINDOW} seconds.", field="key_window")
    if system != "kafka" and security_of(config) not in smtp.PORT_OF:
        raise NotValid(f"The encryption is one of {', '.join(smtp.PORT_OF)}.", field="security")


def check_web(url: Any, field: str) -> None:
    """A name that cannot be resolved right now is taken; each call checks it again."""
    if not url:
        return
    try:
        check_url(str(url))
    except Forbidden as error:
        raise NotValid(f"The address cannot be used: {error}.", field=field) from None
    except EgressError:
        return


def check_hosts(hosts: Iterable[str]) -> None:
    try:
        for entry in hosts:
            origin(entry)
    except ValueError:
        raise NotValid("Each of `hosts` is written host, host:port or https://host.", field="hosts") from None


def check_mail(config: Mapping[str, Any], *, practice: bool) -> None:
    """The server, the sender, and that no password is sent in clear."""
    if not config.get("host"):
        if practice:
            return
        raise NotValid("A connection that is not for practice needs a server.", field="host")
    if security_of(config) == "none" and config.get("username"):
        raise NotValid("A password is not sent without encryption.", field="security")
    try:
        bare(str(config.get("sender") or ""))
    except ValueError as error:
        raise NotValid(f"The sender {error}.", field="sender") from None
    check_server(config)


def check_cluster(config: Mapping[str, Any], secrets: Mapping[str, Any], *, practice: bool) -> None:
    """The brokers, each with an address that may be called."""
    if practice and not config.get("brokers"):
        return
    try:
        kafka.refuse_closed(topics.cluster(dict(config), str(secrets.get("password") or "")).brokers)
    except (Forbidden, ValueError) as error:
        raise NotValid(f"The brokers cannot be used: {error}.", field="brokers") from None
    except EgressError:
        return


def check_server_of_tools(config: Mapping[str, Any], secrets: Mapping[str, Any], *, practice: bool) -> None:
    """One way to it: an address that may be called, or a command that the operator lists."""
    url, command = config.get("url"), config.get("command")
    if bool(url) == bool(command) and not (practice and not url):
        raise NotValid("Name an address or a command, and not both.", field="url")
    check_web(url, "url")
    if command and command not in settings.MCP_COMMANDS:
        raise NotValid(f"The operator lists no command {command!r} in MCP_COMMANDS.", field="command")
    if command and secrets:
        raise NotValid("A command is given no headers.", field="headers")
    tools = config.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise NotValid("`tools` is a list of texts.", field="tools")
    tiers_of(config)


def check_server(config: Mapping[str, Any]) -> None:
    try:
        smtp.check_server(str(config["host"]), port_of(config))
    except (Forbidden, ValueError) as error:
        raise NotValid(f"The mail server cannot be used: {error}.", field="host") from None
    except EgressError:
        return
