"""`manage.py create_token`: print a new API token once on stdout, and nothing else."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_slug
from django.db import transaction

from project import health
from project.people.models import PEOPLE_ONLY, SCOPES, ApiToken, User
from triggers.models import Audit


class Command(BaseCommand):
    help = "Print a new API token once on stdout."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", nargs="?", default="", help="the person it belongs to")
        parser.add_argument("--service", default="", help="a service account's slug, instead of a person")
        parser.add_argument("--name", required=True, help="what it is for")
        parser.add_argument("--scope", action="append", default=[], help=f"of: {', '.join(SCOPES)} (default read)")

    def handle(self, *, user: str, service: str, name: str, scope: list[str], **_: Any) -> None:
        health.require_migrated()
        scopes = list(dict.fromkeys(word for text in scope for word in text.split(",") if word)) or ["read"]
        if unknown := [word for word in scopes if word not in SCOPES]:
            raise CommandError(f"no scope {unknown[0]!r}; there are: {', '.join(SCOPES)}")
        person = self.person(user, service, scopes)
        with transaction.atomic():
            token, secret = ApiToken.objects.all().issue(user=person, service=service, name=name, scopes=scopes)
            Audit.write("create", token, scopes=scopes, name=name, command=True)
        self.stdout.write(secret)

    def person(self, user: str, service: str, scopes: list[str]) -> User | None:
        """Whose token it is; None for a service account. Raises CommandError."""
        if bool(user) == bool(service):
            raise CommandError("name either a user or --service SLUG")
        if service:
            try:
                validate_slug(service)
            except ValidationError as error:
                raise CommandError(f"--service must be a slug like build-server, not {service!r}") from error
            if forbidden := [word for word in scopes if word in PEOPLE_ONLY]:
                raise CommandError(f"a service account never gets the scope {forbidden[0]!r}")
            return None
        person = User.objects.filter(username=user, is_active=True).first()
        if person is None:
            raise CommandError(f"no active user {user!r}")
        return person
