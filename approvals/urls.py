"""Addresses of the people's side: a page an action, and the things one can say about it."""

from django.urls import path

from approvals import done_views, edit_views, habit_views, list_views, team_views, together_views, views

urlpatterns = [
    path("approvals", views.inbox, name="approvals"),
    path("approvals/together", together_views.together, name="together"),
    path("actions", list_views.actions, name="actions"),
    path("actions/<int:pk>", views.page, name="action"),
    path("actions/<int:pk>/edit", edit_views.edit, name="action-edit"),
    path("actions/<int:pk>/decisions", views.say, name="decide"),
    path("actions/<int:pk>/take-back", views.take_it_back, name="take-back"),
    path("actions/<int:pk>/cancel", views.withdraw, name="cancel-action"),
    path("actions/<int:pk>/outcome", views.settle, name="outcome"),
    path("actions/<int:pk>/review", done_views.look, name="review"),
    path("done", done_views.page, name="done"),
    path("audit/people", habit_views.people, name="habits"),
    path("settings/teams", team_views.all_teams, name="teams"),
    path("settings/teams/<int:pk>", team_views.team, name="team"),
    path("practice", views.practice, name="practice"),
]
