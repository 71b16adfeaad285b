"""Addresses of how people are told: their settings, the links of messages, and the clicks of a chat."""

from django.urls import path

from approvals import channel_views as views
from approvals import click_views, link_views

urlpatterns = [
    path("settings/notifications", views.notifications, name="notifications"),
    path("settings/notifications/hours", views.hours_save, name="hours"),
    path("settings/notifications/<int:pk>/code", views.channel_code, name="channel-code"),
    path("settings/notifications/<int:pk>/test", views.channel_test, name="channel-test"),
    path("settings/notifications/<int:pk>/remove", views.channel_remove, name="channel-remove"),
    path("go/<slug:slug>", link_views.go, name="go"),
    path("api/v1/chat/<slug:slug>", click_views.pressed, name="chat-click"),
]
