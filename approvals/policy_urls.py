"""Addresses of the policy: its rules, changes that wait for a second admin, the freeze calendar, and the switch."""

from django.urls import path

from approvals import freeze_views, switch_views
from approvals import policy_views as views

urlpatterns = [
    path("policies", views.policies, name="policies"),
    path("policies/new", views.policy_new, name="policy-new"),
    path("policies/changes/<int:pk>", views.policy_change, name="policy-change"),
    path("policies/<slug:slug>", views.policy_edit, name="policy-edit"),
    path("policies/<slug:slug>/archive", views.policy_archive, name="policy-archive"),
    path("freezes", freeze_views.freezes, name="freezes"),
    path("freezes/<int:pk>/lift", freeze_views.lift, name="freeze-lift"),
    path("switch", switch_views.stop, name="switch"),
    path("switch/<int:pk>/resume", switch_views.go_on, name="switch-resume"),
]
