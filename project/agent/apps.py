from django.apps import AppConfig
from django.utils.module_loading import import_string

from triggers import registry


class AgentConfig(AppConfig):
    name = "project.agent"
    label = "agent"

    def ready(self) -> None:
        registry.used_by.append(import_string("project.agent.telling.used_by"))
        registry.costs_of.append(import_string("project.agent.telling.costs_of"))
        registry.lacking.append(import_string("project.agent.telling.lacking"))
