import gc

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules, import_string

from triggers import registry

# Settings name this app first, so the others load with the collector at rest: walking what is only being built, again
# and again, takes a fifth of a start. From `ready` on it works, and leaves alone what is there by then.
gc.disable()


class ProjectConfig(AppConfig):
    name = "project"
    label = "desk"

    def ready(self) -> None:
        autodiscover_modules("handlers")  # registers what ships; its modules need the rows, so not before
        import_string("project.checks.announce")()
        registry.samples.append(import_string("project.trial_samples.deliveries"))
        gc.collect()
        gc.freeze()
        gc.enable()
