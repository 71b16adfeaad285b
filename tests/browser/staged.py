"""Pages of a test's own with scripts of ours, without a desk."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Route

from project import assets
from tests.house import tree

STATIC = tree.ROOT / "project" / "static"
HERE = "http://localhost:9"  # nothing listens there: whatever is asked for is answered by the test


def serve(asked: BrowserContext | Page, scripts: tuple[str, ...], body_of: Callable[[str], str]) -> None:
    """Answer `asked` by pages that load `scripts`; `body_of("/path")` is what stands on one."""

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(HERE)
        if path.endswith(".js"):
            text = assets.lean_script((STATIC / Path(path).name).read_text())  # as it is served
            route.fulfill(body=text, content_type="text/javascript")
            return
        told = body_of(path)
        if told.startswith("{"):
            route.fulfill(body=told, content_type="application/json")
            return
        loads = "".join(f'<script src="/{one}.js" defer></script>' for one in scripts)
        page = f"<!doctype html><html data-seq=1-0><title>t</title>{loads}<main>{told}</main>"
        route.fulfill(body=page, content_type="text/html")

    asked.unroute_all()
    asked.route("**/*", answer)
