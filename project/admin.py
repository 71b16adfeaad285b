"""The admin: windows on every row, which nobody can change there, and a few things an admin may change after a fresh
sign-in: people, groups, tokens, periodic tasks. Everything live, urgent or foreign has its own page."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.template.response import SimpleTemplateResponse
from django_celery_beat.admin import CrontabScheduleAdmin as BeatCrontabAdmin
from django_celery_beat.admin import IntervalScheduleAdmin as BeatIntervalAdmin
from django_celery_beat.admin import PeriodicTaskAdmin as BeatTaskAdmin
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from project.admin_doors import buttons_of
from project.lib.bare import without
from project.lib.visible import plain
from project.people.doors import is_fresh, to_step_up, who
from project.people.models import ApiToken, Authenticator, User
from project.people.roles import ADMIN, LastAdmin, can, check_admin_stays
from triggers.models import Audit

with without("django.contrib.postgres.fields"):  # no row here has one, and they load the driver, on SQLite too
    from unfold.admin import ModelAdmin
    from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

# Never shown in a window: secrets, and what foreigners wrote (their own pages draw it safely).
SECRETS = (
    *("sealed_secrets", "sealed_arguments", "sealed_url", "sealed_wish", "sealed_key"),
    *("credentials", "hash", "code", "session_data"),
)
FOREIGN = (
    "raw",
    "data_json",
    "headers",
    "body",
    "result_json",
    "canonical",
    "arguments",
    "result",
    "whole",
    "text",
    "input_text",
    "evidence",
    "state_json",
    "answer_json",
    "before",
    "after",
)
HIDDEN = frozenset((*SECRETS, *FOREIGN, "post_data", "get_data"))
# What a list shows; a model that is not named here shows its own words.
COLUMNS: dict[str, tuple[str, ...]] = {
    "triggers.event": ("id", "type", "source_slug", "status", "duplicates", "received_at"),
    "triggers.run": ("id", "handler", "status", "reason", "attempt", "crashes", "queued_at", "finished_at"),
    "triggers.step": ("id", "run", "name", "kind", "status", "attempt", "started_at"),
    "triggers.wait": ("id", "run", "step", "type", "subject", "status", "expires_at"),
    "triggers.deadletter": ("id", "kind", "error_type", "handler", "status", "attempts", "last_at"),
    "triggers.bulk": ("id", "verb", "status", "total", "by", "created_at", "ended_at"),
    "triggers.bulkitem": ("id", "job", "ref", "status", "run", "at"),
    "triggers.source": ("slug", "kind", "provider", "enabled", "version", "archived_at"),
    "triggers.trigger": ("slug", "source", "type_pattern", "handler", "enabled", "mode", "version"),
    "triggers.refusal": ("id", "slug", "reason", "answered", "at", "size"),
    "triggers.audit": ("id", "at", "by", "verb", "kind", "ref", "number"),
    "triggers.switch": ("scope", "name", "paused", "by", "at"),
    "approvals.action": ("id", "kind", "tier", "status", "requested_by", "created_at", "settled_at"),
    "approvals.decision": ("id", "action", "by", "verdict", "revision", "channel", "at"),
    "approvals.asking": ("id", "action", "revision", "level", "reminders", "asked_at", "closed_at", "outcome"),
    "approvals.notice": ("id", "asking", "person", "channel", "what", "status", "tries", "due_at", "sent_at"),
    "approvals.click": ("id", "connection", "identity", "person", "action_id", "outcome", "remote", "at"),
    "approvals.channel": ("id", "person", "connection", "address", "confirmed_at", "pressed_at", "removed_at"),
    "approvals.review": ("id", "action", "drawn_at", "verdict", "by", "at"),
    "approvals.attempt": ("id", "action", "number", "outcome", "started_at", "ended_at"),
    "approvals.proposal": ("id", "action", "key"),
    "approvals.callback": ("id", "action", "tries", "due_at", "told_at"),
    "approvals.freeze": ("id", "name", "starts_at", "ends_at", "by", "lifted_at"),
    "approvals.connection": ("slug", "system", "practice", "version", "archived_at"),
}
# How several rows are called, where an added s is no word.
PLURALS = {
    "approvals.hours": "hours",
    "triggers.switch": "switches",
    "triggers.seen": "deliveries seen",
    "triggers.bulk": "bulk jobs",
    "triggers.bulkitem": "rows of bulk jobs",
    "triggers.eventwords": "words of events",
    "triggers.tally": "tallies",
    "triggers.counted": "counted until",
    "triggers.watch": "watches",
}
WINDOWS = ("triggers", "approvals", "axes")  # apps whose rows are all windows
# Pages the admin would bring along. The desk's own throttle guesses and write into the audit log.
ELSEWHERE = {"login": "sign-in", "password_change": "password-change", "password_change_done": "settings"}


class Window(ModelAdmin):
    """Rows to look at. Add, change and delete answer 403, whoever asks; no action is offered."""

    actions = None
    list_per_page = 50
    show_full_result_count = False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return can(request.user, "configure")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return can(request.user, "configure")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return legible(super().changeform_view(request, *args, **kwargs))

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return legible(super().changelist_view(request, *args, **kwargs))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return [field.name for field in self.model._meta.fields if field.name not in HIDDEN]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return self.get_fields(request, obj)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return COLUMNS.get(self.model._meta.label_lower, ("pk", "__str__"))

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        hidden = [field.name for field in self.model._meta.fields if field.name in HIDDEN]
        rows: models.QuerySet[Any] = super().get_queryset(request).defer(*hidden).order_by("-pk")
        return rows


def legible(page: HttpResponseBase) -> HttpResponseBase:
    """A reason or an error that somebody else wrote hides nothing in a window either: no page of the theme holds any
    of these characters by itself."""

    def show(drawn: HttpResponse) -> None:
        drawn.content = plain(drawn.content.decode())

    if isinstance(page, SimpleTemplateResponse):
        page.add_post_render_callback(show)
    return page


class Guarded(ModelAdmin):
    """Rows an admin may change, within five minutes of a fresh sign-in; each change is in the audit log."""

    actions = None

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return can(request.user, "configure")

    has_change_permission = has_view_permission
    has_delete_permission = has_view_permission

    def has_add_permission(self, request: HttpRequest) -> bool:
        return can(request.user, "configure")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return can(request.user, "configure")

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return super().changeform_view(request, *args, **kwargs) if is_fresh(request) else to_step_up(request.path)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return super().delete_view(request, *args, **kwargs) if is_fresh(request) else to_step_up(request.path)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        fields = sorted(name for name in form.changed_data if "password" not in name)
        Audit.write("change" if change else "create", obj, by=who(request), fields=fields)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        Audit.write("delete", obj, by=who(request), name=str(obj))
        super().delete_model(request, obj)


class PersonForm(UserChangeForm):
    """The last admin stays one."""

    def clean(self) -> dict[str, Any]:
        told: dict[str, Any] = super().clean() or {}
        stays = told.get("is_active") and any(group.name == ADMIN for group in told.get("groups", ()))
        if not stays and self.instance.groups.filter(name=ADMIN).exists():
            try:
                check_admin_stays(without=self.instance)
            except LastAdmin as refused:
                self.add_error(None, refused.detail)
        return told


class NewPersonForm(UserCreationForm):
    """Whoever makes a person knows the first password, and could go on to sign in in that name."""

    must_change_password = forms.BooleanField(
        label="Must change the password at the first sign-in",
        initial=True,
        required=False,
        help_text="You know this one, and could sign in in that name.",
    )


class PersonAdmin(Guarded, DjangoUserAdmin):  # type: ignore[misc, type-arg]
    """People: their groups are their roles; somebody who left is made inactive, so that what he decided stays his."""

    form = PersonForm
    add_form = NewPersonForm
    add_fieldsets = (  # the theme would show none
        (None, {"fields": ("username", "password1", "password2", "must_change_password")}),
    )
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "last_login")
    list_filter = ("is_active", "groups")
    fieldsets = (
        (None, {"fields": ("username", "password", "first_name", "last_name", "email")}),
        ("Roles", {"fields": ("is_active", "groups", "must_change_password")}),
        ("Seen", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not the admin who asks, so one always stays; and nobody who ever did anything: the database refuses that."""
        return super().has_delete_permission(request, obj) and (obj is None or obj.pk != who(request).pk)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Each role and team that is given or taken has its own row in the log, as on the page of the teams."""
        person = form.instance
        before = set(person.groups.all())
        super().save_related(request, form, formsets, change)
        after = set(person.groups.all())
        for verb, groups in (("join", after - before), ("leave", before - after)):
            for group in sorted(groups, key=str):
                Audit.write(verb, group, by=who(request), name=group.name, person=person.username)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        if not is_fresh(request):
            return to_step_up(request.path)
        answer: HttpResponse = super().user_change_password(request, id, form_url)
        if answer.status_code == 302:
            person = User.objects.get(pk=id)
            person.change(must_change_password=person.pk != who(request).pk)  # the admin knows this one too
            Audit.write("set password", person, by=who(request))
        return answer


class RoleAdmin(Guarded, DjangoGroupAdmin):  # type: ignore[misc]
    """The four groups are the four roles; others are teams, which rules name: they are changed under Settings."""

    fields = ("name",)
    filter_horizontal = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_delete_permission = has_change_permission


class TokenAdmin(Guarded):
    """Tokens are made, and revoked for good, under Settings; their text is shown only once."""

    list_display = ("name", "user", "service", "hint", "created_at", "last_used_at", "revoked_at")
    fields = ("name", "user", "service", "scopes", "hint", "created_at", "last_used_at", "revoked_at")
    readonly_fields = ("user", "service", "scopes", "hint", "created_at", "last_used_at", "revoked_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Nothing but its name: a revocation of this very moment stays one."""
        obj.save(update_fields=["name"])
        Audit.write("change", obj, by=who(request), fields=form.changed_data)


class AuthenticatorAdmin(Guarded):
    """Enrolled by its person; removed here for somebody who lost the phone and every recovery code."""

    list_display = ("user", "confirmed_at")
    fields = readonly_fields = ("user", "confirmed_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class TaskAdmin(Guarded, BeatTaskAdmin):
    """The desk's clockwork: tick, prune."""


class IntervalAdmin(Guarded, BeatIntervalAdmin):
    """How often."""


class CrontabAdmin(Guarded, BeatCrontabAdmin):
    """At which times."""


EDITABLE: dict[type[models.Model], type[Guarded]] = {
    User: PersonAdmin,
    Group: RoleAdmin,
    ApiToken: TokenAdmin,
    Authenticator: AuthenticatorAdmin,
    PeriodicTask: TaskAdmin,
    IntervalSchedule: IntervalAdmin,
    CrontabSchedule: CrontabAdmin,
}


def furnish(site: admin.AdminSite) -> None:
    """Replace whatever other apps put into the admin by our windows and guarded rows."""
    for model in list(site._registry):
        site.unregister(model)
    for label in WINDOWS:
        for model in apps.get_app_config(label).get_models():
            site.register(model, type("Window", (Window,), buttons_of(model._meta.label_lower)))
    for label, words in PLURALS.items():
        apps.get_model(label)._meta.verbose_name_plural = words
    for model, row in EDITABLE.items():
        site.register(model, row)
    site.has_permission = lambda request: can(request.user, "configure")  # type: ignore[method-assign]
    for page, name in ELSEWHERE.items():
        setattr(site, page, leads_to(name))


def leads_to(name: str) -> Callable[..., HttpResponse]:
    def lead(request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return redirect(name)

    return lead
