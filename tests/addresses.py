"""Every address the desk answers, read from its router, so that one which is added tomorrow is looked at too."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from django.urls import URLPattern, URLResolver, get_resolver

VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>|\(\?P<(\w+)>[^)]*\)")  # of a path, or of a regular expression
PLACED = re.compile(rf"([\w-]+)/(?:{VARIABLE.pattern})")
GIVEN = {
    "pk": "1",
    "seq": "1",
    "id": "1",
    "slug": "github",
    "type": "github.issues.opened",
    "fingerprint": "0a1b2c3d4e5f6071",
    "rest": "v9/nothing",
    "name": "daily-report",
    "object_id": "1",
    "content_type_id": "1",
    "app_label": "approvals",
    "url": "nothing",
}


def routes(resolver: URLResolver | None = None, prefix: str = "/") -> Iterator[tuple[str, str]]:
    """`(route, name)` of each, as the router writes it: `/actions/<int:pk>`; some have no name."""
    for pattern in (resolver or get_resolver()).url_patterns:
        here = prefix + str(pattern.pattern).lstrip("^")
        if isinstance(pattern, URLResolver):
            yield from routes(pattern, here)
        elif isinstance(pattern, URLPattern):
            yield here, pattern.name or ""


def filled(route: str, keys: Mapping[str, object] = MappingProxyType({})) -> str:
    """With sample values in place of the variables; `keys` has others, by the segment of the path before them."""
    given = PLACED.sub(lambda found: f"{found[1]}/{keys.get(found[1], GIVEN[found[2] or found[3]])}", route)
    return VARIABLE.sub(lambda found: GIVEN[found[1] or found[2]], given).rstrip("$")


EVERY = list(routes())
ADMIN = [route for route, _ in EVERY if route.startswith("/admin/")]
API = [route for route, _ in EVERY if route.startswith("/api/")]
PAGES = [(route, name) for route, name in EVERY if route not in {*ADMIN, *API}]
