"""The admin in the desk's colours: steps of the theme, from light to dark, and the tokens of app.css they stand for."""

from django.http import HttpRequest
from django.templatetags.static import static

STEPS = ("50", "100", "200", "300", "400", "500", "600", "700", "800", "900", "950")
GREYS = "#f5f6f8 #eef0f4 #d3d8e0 #b4bdca #949fae #5a6472 #434c59 #2d3541 #1d232c #151a21 #0d1015"
BLUES = "#e5ecfb #e5ecfb #8fb4ff #8fb4ff #86adff #86adff #1f4fbf #1f4fbf #17284c #14264a #0b1430"


def favicon(request: HttpRequest) -> str:
    return static("icon.svg")


def targets(request: HttpRequest) -> str:
    return static("admin/targets.css")


UNFOLD = {
    "SITE_TITLE": "Nightdesk",
    "SITE_HEADER": "Nightdesk",
    "SITE_URL": "/",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": favicon}],
    "STYLES": [targets],
    "COLORS": {
        "base": dict(zip(STEPS, GREYS.split(), strict=True)),
        "primary": dict(zip(STEPS, BLUES.split(), strict=True)),
    },
}
