"""What people may set about themselves, and the tokens they make."""

import zoneinfo
from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import validate_slug

from project.lib.language import later
from project.people.auth import ROLES, SCOPES
from project.people.models import PEOPLE_ONLY, ApiToken, User
from project.people.models import SCOPES as ALL_SCOPES
from project.people.roles import can

THEMES = (("", later("As the system")), ("light", later("Light")), ("dark", later("Dark")))
DENSITIES = (("", later("Comfortable")), ("compact", later("Compact")))
MEANINGS = {
    "read": later("See facts, lists and /metrics"),
    "ingest": later("Send events"),
    "propose": later("Ask for actions, and see its own"),
    "operate": later("See payloads, run again, cancel, pause"),
    "decide": later("Say yes or no in your name; never on high"),
    "configure": later("Change sources and triggers"),
}


class MeForm(forms.Form):
    """A person about himself."""

    name = forms.CharField(
        max_length=150, required=False, label="Name", help_text="What others read beside your decisions."
    )
    email = forms.EmailField(required=False, label="Mail")
    time_zone = forms.ChoiceField(required=False, label="Time zone", help_text="Times are shown in it; stored in UTC.")
    language = forms.ChoiceField(
        required=False, label="Language", choices=[("", later("As the browser asks")), *settings.LANGUAGES]
    )
    theme = forms.ChoiceField(choices=THEMES, required=False, label="Theme")
    density = forms.ChoiceField(choices=DENSITIES, required=False, label="Lists")
    keys = forms.BooleanField(required=False, label="Single keys (a, r, j, k …) do something")
    sound = forms.BooleanField(required=False, label="A short tone when another approval waits")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zones = sorted(name for name in zoneinfo.available_timezones() if "/" in name or name == "UTC")
        self.fields["time_zone"].choices = [("", later("The desk's own")), *((name, name) for name in zones)]  # type: ignore[attr-defined]

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"]).strip()
        if not name.isprintable():
            raise forms.ValidationError("A name is made of printable characters.")
        return name


def scopes_of(user: User) -> list[str]:
    """The scopes a token of this person could use: a token never may more than its person."""
    abilities = {scope: ability for ability, scope in SCOPES.items() if ability != "payloads"}
    return [scope for scope in ALL_SCOPES if can(user, ROLES.get(abilities[scope], abilities[scope]))]


class TokenForm(forms.Form):
    """A new token: of the person, or, made by an admin, of a service account."""

    name = forms.CharField(
        max_length=100, label="What is it for?", help_text="So that you know later which one to revoke."
    )
    scopes = forms.MultipleChoiceField(
        label="It may", widget=forms.CheckboxSelectMultiple, error_messages={"required": "Pick at least one."}
    )
    service = forms.CharField(
        max_length=64,
        required=False,
        label="Service account",
        help_text="Empty: yours. Else a name like build-server; a service never decides or configures.",
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.admin = can(user, "configure")
        offered = [scope for scope in ALL_SCOPES if self.admin and scope not in PEOPLE_ONLY]
        own = scopes_of(user)
        self.own = own
        choices = [scope for scope in ALL_SCOPES if scope in own or scope in offered]
        self.fields["scopes"].choices = [(scope, MEANINGS[scope]) for scope in choices]  # type: ignore[attr-defined]
        if not self.admin:
            del self.fields["service"]

    def clean_service(self) -> str:
        service = str(self.cleaned_data["service"]).strip()
        if service:
            validate_slug(service)
        return service

    def clean(self) -> dict[str, Any]:
        told: dict[str, Any] = super().clean() or {}
        scopes, service = told.get("scopes", []), told.get("service", "")
        beyond = (
            [scope for scope in scopes if scope in PEOPLE_ONLY] if service else [s for s in scopes if s not in self.own]
        )
        if beyond:
            whose = "A service account never gets" if service else "Your roles do not give you"
            self.add_error("scopes", f"{whose}: {', '.join(beyond)}.")
        return told

    def make(self, user: User) -> tuple[ApiToken, str]:
        """The row and the secret text, which nobody sees again."""
        told = self.cleaned_data
        service = told.get("service", "")
        owner = None if service else user
        return ApiToken.objects.all().issue(
            user=owner, service=service, name=told["name"], scopes=told["scopes"], made_by=user
        )
