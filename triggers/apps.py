from django.apps import AppConfig
from django.utils.module_loading import import_string

from triggers import registry


class TriggersConfig(AppConfig):
    name = "triggers"
    label = "triggers"

    def ready(self) -> None:
        registry.at_refusal.append(import_string("triggers.endings.condemn"))
        registry.load_user_handlers()
