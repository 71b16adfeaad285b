"""`manage.py seed_tour`: add what is missing of the tour; nothing that is there is touched."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project import health, tour
from project.people.models import User


class Command(BaseCommand):
    help = "Add the sources, triggers and practice connections of the tour that are missing."

    def handle(self, **_: Any) -> None:
        health.require_migrated()
        owner = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
        if owner is None:
            raise CommandError("this desk has no owner yet; start it once with: manage.py up")
        added = tour.seed(owner)
        self.stdout.write(f"added: {', '.join(added)}" if added else "nothing was missing")
