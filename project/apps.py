from importlib import import_module

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "project"
    label = "desk"

    def ready(self) -> None:
        import_module("project.handlers")  # registers what ships; its modules need the rows, so not before
