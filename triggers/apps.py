from django.apps import AppConfig

from triggers import registry


class TriggersConfig(AppConfig):
    name = "triggers"
    label = "triggers"

    def ready(self) -> None:
        registry.load_user_handlers()
