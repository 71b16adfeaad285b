from django.apps import AppConfig
from django.utils.module_loading import import_string

from approvals import connectors
from triggers import registry


class ApprovalsConfig(AppConfig):
    name = "approvals"
    label = "approvals"
    catalogue = connectors  # importing it registers the kinds

    def ready(self) -> None:
        registry.at_run_end.append(import_string("approvals.decide.withdraw"))
