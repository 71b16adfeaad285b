from django.apps import AppConfig
from django.utils.module_loading import import_string

from project.people.revoking import at_revocation
from triggers import registry


class ApprovalsConfig(AppConfig):
    name = "approvals"
    label = "approvals"

    def ready(self) -> None:
        registry.at_run_end.append(import_string("approvals.run_end.clear"))
        registry.left_by_run.append(import_string("approvals.run_end.left"))
        at_revocation.append(import_string("approvals.outside.withdraw_all"))
        registry.undone_steps.append(import_string("approvals.undoing.undone_steps"))
        registry.needed_runs.append(import_string("approvals.effects_of.needed_runs"))
        registry.act_names.append(import_string("approvals.effects_of.act_names"))
        registry.sent_by.append(import_string("approvals.effects_of.sent_by"))
        registry.undoing_of.append(import_string("approvals.effects_of.undoing_of"))
        registry.asked_of.append(import_string("approvals.effects_of.asked_of"))
        registry.knows_kind.append(import_string("approvals.effects_of.knows_kind"))
        registry.asks_of.append(import_string("approvals.estimates.asks_of"))
        registry.taken_up.append(import_string("approvals.undoing.take_up_again"))
        registry.spare_rows["messages"] = import_string("approvals.spare.rows")
