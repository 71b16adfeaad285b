"""Everything the database holds, to compare before and after: what only looks must change none of it."""

from typing import Any

from django.apps import apps


def everything() -> dict[str, list[dict[str, Any]]]:
    """Every row of every table."""
    return {model._meta.label: list(model._base_manager.order_by("pk").values()) for model in apps.get_models()}


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Rows that are new or changed, by table; rows that are gone too."""
    return {
        label: [row for row in [*rows, *after[label]] if (row in rows) != (row in after[label])]
        for label, rows in before.items()
        if rows != after[label]
    }
