"""Addresses: the desk's pages, the API, health, and the admin."""

from django.contrib import admin
from django.urls import include, path, re_path

from project import finding, health, metrics, proving_pages, ringing, settings_pages, views
from project.admin import furnish
from project.api import addresses, no_such_address
from project.people import views as people

handler400 = "project.views.bad_request"
handler403 = "project.views.not_allowed"
handler404 = "project.views.not_found"
handler500 = "project.views.broken"

admin.autodiscover()  # here and not at start-up, so that only processes with pages load it
furnish(admin.site)

urlpatterns = [
    path("", views.home, name="home"),
    path("find", finding.find, name="find"),
    path("test-delivery", ringing.send_test, name="send-test"),
    path("sources/<slug:slug>/test-deliveries", ringing.send_to_source, name="source-test"),
    path("settings", settings_pages.me, name="settings"),
    path("settings/zone", settings_pages.zone, name="zone"),
    path("settings/tokens", settings_pages.tokens, name="tokens"),
    path("settings/tokens/<int:pk>/revoke", settings_pages.revoke_token, name="token-revoke"),
    path("settings/authenticator", proving_pages.authenticator, name="authenticator"),
    path("settings/checks", settings_pages.checks, name="checks"),
    path("sign-in", people.sign_in, name="sign-in"),
    path("sign-out", people.sign_out, name="sign-out"),
    path("step-up", proving_pages.step_up, name="step-up"),
    path("password", views.password_change, name="password-change"),
    path("", include("approvals.urls")),
    path("", include("approvals.connection_urls")),
    path("", include("approvals.policy_urls")),
    path("", include("approvals.telling_urls")),
    path("", include("triggers.urls")),
    path("api/v1/", addresses()),
    re_path(r"^api/(?P<rest>.*)$", no_such_address),
    path("readyz", health.ready, name="readyz"),
    path("metrics", metrics.page, name="metrics"),
    path("admin/", admin.site.urls),
]
