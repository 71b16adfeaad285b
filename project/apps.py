from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules, import_string


class ProjectConfig(AppConfig):
    name = "project"
    label = "desk"

    def ready(self) -> None:
        autodiscover_modules("handlers")  # registers what ships; its modules need the rows, so not before
        import_string("project.checks.announce")()
