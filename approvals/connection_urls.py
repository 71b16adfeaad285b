"""Addresses of the connections."""

from django.urls import path

from approvals import connection_views as views

urlpatterns = [
    path("connections", views.connections, name="connections"),
    path("connections/new", views.connection_new, name="connection-new"),
    path("connections/<slug:slug>", views.connection_edit, name="connection-edit"),
    path("connections/<slug:slug>/archive", views.archive_connection, name="connection-archive"),
]
