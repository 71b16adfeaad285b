from django.apps import AppConfig
from django.utils.module_loading import import_string

from triggers import registry


class ApprovalsConfig(AppConfig):
    name = "approvals"
    label = "approvals"

    def ready(self) -> None:
        registry.at_run_end.append(import_string("approvals.decide.withdraw"))
