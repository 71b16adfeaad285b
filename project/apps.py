from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules, import_string

from triggers import registry


class ProjectConfig(AppConfig):
    name = "project"
    label = "desk"

    def ready(self) -> None:
        autodiscover_modules("handlers")  # registers what ships; its modules need the rows, so not before
        import_string("project.checks.announce")()
        registry.samples.append(import_string("project.trial_samples.deliveries"))
