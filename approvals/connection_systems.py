"""One form for each system a connection can lead to, and how the pages call it."""

from typing import Any, ClassVar

from django import forms

from approvals.connection_forms import KEPT, TYPED, ConnectionForm, address_field, plain_field, secret_field
from approvals.reach import LONGEST_WINDOW
from project.lib.kafka import MECHANISMS
from project.lib.language import later, words
from triggers.forms.fields import LinesField

SYSTEMS = {
    "github": ("git-pull-request", words("GitHub"), words("Comments, pull requests and merges through GitHub's API.")),
    "http": (
        "globe",
        words("HTTP"),
        words("Requests to web addresses, with credentials in headers for the hosts you name."),
    ),
    "smtp": ("mail", words("Mail"), words("Mail through your own SMTP server.")),
    "slack": ("hash", words("Slack"), words("Messages into one channel, by a bot's token or an incoming webhook.")),
    "feishu": (
        "message-circle",
        words("Feishu"),
        words("Messages into one group, by a custom bot's webhook; to single people by an app. Lark too."),
    ),
    "wecom": ("messages-square", words("WeCom"), words("Messages into one group, by the webhook of a group bot.")),
    "dingtalk": (
        "message-square",
        words("DingTalk"),
        words("Requests to decide into one group, by the webhook of its robot."),
    ),
    "telegram": ("send", words("Telegram"), words("Requests to decide to single people, by a bot of yours.")),
    "stripe": ("credit-card", words("Stripe"), words("Refunds.")),
    "kafka": ("workflow", words("Kafka"), words("Records to topics of a cluster.")),
    "mcp": ("wrench", words("MCP"), words("Tools of an MCP server, for agents; each with its tier.")),
    "notify": (
        "bell",
        words("Notifications"),
        words("Messages to your own people, by chat, mail or push (Apprise addresses)."),
    ),
}


class GitHubForm(ConnectionForm):
    CONFIG = ("api_url",)
    SECRETS = ("token",)

    api_url = address_field("API address", "Empty for github.com; GitHub Enterprise: https://HOST/api/v3")
    token = secret_field("Token")

    def clean_api_url(self) -> str:
        return str(self.cleaned_data["api_url"]).rstrip("/")


def headers_field(where: str) -> forms.CharField:
    return forms.CharField(
        label="Headers with credentials",
        required=False,
        max_length=8000,
        help_text=f"One a line: Authorization: Bearer … {where} {KEPT}",
        widget=forms.Textarea(attrs={"rows": 3, **TYPED}),
    )


class HeadersForm(ConnectionForm):
    """Credentials as headers, a line each."""

    def clean_headers(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        for line in self.cleaned_data["headers"].splitlines():
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or not name.strip() or not value.strip():
                raise forms.ValidationError("Each line is a name, a colon and a value.")
            pairs[name.strip()] = value.strip()
        return pairs

    def secrets(self) -> dict[str, Any] | None:
        return self.cleaned_data["headers"] or None


class McpForm(HeadersForm):
    CONFIG = ("url", "command", "tools")

    url = address_field("Address", "Of its streamable HTTP: https://mcp.example.org/mcp")
    command = plain_field("Command", "Instead of an address: a name that MCP_COMMANDS gives to a command here.")
    tools = LinesField(
        label="Tiers of its tools",
        required=False,
        help_text="One a line: search: read, create_issue: medium. What is not named is high.",
    )
    headers = headers_field("They go to the address above.")


class HttpForm(HeadersForm):
    CONFIG = ("hosts", "key_window")

    hosts = LinesField(
        label="Hosts",
        required=False,
        help_text="One a line: api.example.org, example.org:8443. Only they are called. Needed with headers.",
    )
    key_window = forms.IntegerField(
        label="Remembers a key for, in seconds",
        required=False,
        min_value=0,
        max_value=LONGEST_WINDOW,
        help_text="How long it answers a repeated Idempotency-Key without doing it again. Empty: a day. "
        "0: it knows no keys, so a person is asked when an answer is lost.",
    )
    headers = headers_field("They go to the hosts above.")


class SmtpForm(ConnectionForm):
    CONFIG = ("host", "port", "security", "username", "sender")
    SECRETS = ("password",)

    host = plain_field("Server", "smtp.example.org")
    port = forms.IntegerField(
        label="Port", required=False, min_value=1, max_value=65535, help_text="Empty: 587, with TLS 465, without 25."
    )
    security = forms.ChoiceField(
        label="Encryption",
        required=False,
        choices=[
            ("starttls", later("STARTTLS")),
            ("tls", later("TLS from the start")),
            ("none", later("None, and no password")),
        ],
    )
    username = plain_field("User name")
    password = secret_field("Password")
    sender = plain_field("Sender", "The address mails come from: desk@example.org")


class WebhookForm(ConnectionForm):
    SECRETS: ClassVar[tuple[str, ...]] = ("webhook_url",)

    webhook_url = secret_field("Webhook address", "It is a secret: whoever knows it can post.")

    def clean_webhook_url(self) -> str:
        return str(self.cleaned_data["webhook_url"]).rstrip("/")


class SlackForm(WebhookForm):
    CONFIG = ("channel",)
    SECRETS = ("webhook_url", "token", "signing_secret")

    token = secret_field("Bot token", "Instead of a webhook: xoxb-… with the right chat:write.")
    signing_secret = secret_field("Signing secret", "For buttons: it proves whose click it was.")
    channel = plain_field("Channel", "With a token: the channel's id, C0123456789.")


class RobotForm(WebhookForm):
    SECRETS: ClassVar[tuple[str, ...]] = ("webhook_url", "secret")

    secret = secret_field("Signing secret", "If the bot checks signatures.")


class FeishuForm(RobotForm):
    """The group by its bot's webhook; single people, when an app's id and secret are there too."""

    CONFIG = ("app_id", "api_url")
    SECRETS = (*RobotForm.SECRETS, "app_secret", "encrypt_key")

    app_id = plain_field("App ID", "To write to single people, by an app with a bot: cli_…")
    app_secret = secret_field("App secret")
    encrypt_key = secret_field("Encrypt key", "For buttons: it proves whose click it was.")
    api_url = address_field("API address", "Empty for open.feishu.cn; Lark: https://open.larksuite.com")

    def clean_api_url(self) -> str:
        return str(self.cleaned_data["api_url"]).rstrip("/")


class TelegramForm(ConnectionForm):
    SECRETS = ("token",)

    token = secret_field("Bot token", "From @BotFather: 123456:ABC…")


class KafkaForm(ConnectionForm):
    CONFIG = ("brokers", "security", "mechanism", "username")
    SECRETS = ("password",)

    brokers = LinesField(label="Brokers", required=False, help_text="One a line: kafka.example.org:9092")
    security = forms.ChoiceField(
        label="Encryption",
        required=False,
        choices=[
            ("tls", later("TLS")),
            ("sasl_tls", later("TLS, with user name and password")),
            ("sasl_plaintext", later("None, with user name and password: only inside your own network")),
            ("plaintext", later("None")),
        ],
    )
    mechanism = forms.ChoiceField(label="Sign-in", required=False, choices=[(name, name) for name in MECHANISMS])
    username = plain_field("User name")
    password = secret_field("Password")


class StripeForm(ConnectionForm):
    SECRETS = ("key",)

    key = secret_field("Key", "A restricted key that may read charges and payment intents and write refunds: rk_…")


class NotifyForm(ConnectionForm):
    SECRETS = ("urls",)

    urls = LinesField(
        label="Addresses",
        required=False,
        help_text=f"Apprise addresses, one a line: slack://…, mailto://… {KEPT}",
    )


FORMS: dict[str, type[ConnectionForm]] = {
    "github": GitHubForm,
    "http": HttpForm,
    "smtp": SmtpForm,
    "slack": SlackForm,
    "feishu": FeishuForm,
    "wecom": WebhookForm,
    "dingtalk": RobotForm,
    "telegram": TelegramForm,
    "stripe": StripeForm,
    "kafka": KafkaForm,
    "mcp": McpForm,
    "notify": NotifyForm,
}
