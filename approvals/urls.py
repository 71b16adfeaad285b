"""Addresses of the people's side: a page an action, and the things one can say about it."""

from django.urls import path

from approvals import edit_views, list_views, views

urlpatterns = [
    path("approvals", views.inbox, name="approvals"),
    path("actions", list_views.actions, name="actions"),
    path("actions/<int:pk>", views.page, name="action"),
    path("actions/<int:pk>/edit", edit_views.edit, name="action-edit"),
    path("actions/<int:pk>/decisions", views.say, name="decide"),
    path("actions/<int:pk>/take-back", views.take_it_back, name="take-back"),
    path("actions/<int:pk>/cancel", views.withdraw, name="cancel-action"),
    path("actions/<int:pk>/outcome", views.settle, name="outcome"),
    path("practice", views.practice, name="practice"),
]
