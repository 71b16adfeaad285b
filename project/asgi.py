"""One server process: the door and the files before Django, the desk's pages and its socket behind them."""

import gc
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from wsgiref.headers import Headers

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from servestatic import ServeStaticASGI

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
pages = get_asgi_application()  # before the imports below: it loads the apps whose rows they read

from project import health  # noqa: E402
from project.live import websocket  # noqa: E402
from triggers import tallies  # noqa: E402
from triggers.door import Door  # noqa: E402

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


def harden(headers: Headers, _path: str, _url: str) -> None:
    """Files are served before Django's middleware; what it says on every page is said here."""
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"


door = Door()
files = ServeStaticASGI(
    None,
    root=settings.STATIC_ROOT,
    prefix=settings.STATIC_URL,
    allow_all_origins=False,
    add_headers_function=harden,
)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI entry point: who answers is decided by the path alone."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
    elif scope["type"] == "websocket":
        await (websocket if scope["path"] == "/ws/live" else nobody)(scope, receive, send)
    elif scope["path"].startswith("/hooks/"):
        began = time.perf_counter()
        await door(scope, receive, send)
        tallies.door(time.perf_counter() - began)
    elif scope["path"] == "/healthz":
        await alive(send)
    elif scope["path"].startswith(settings.STATIC_URL):
        await files(scope, receive, send)
    else:
        await pages(scope, receive, send)


async def lifespan(receive: Receive, send: Send) -> None:
    """Refuse to start on an older database; let the door answer what it holds before the end."""
    await receive()
    try:
        await sync_to_async(health.require_migrated)()
    except SystemExit as refusal:
        await send({"type": "lifespan.startup.failed", "message": str(refusal)})
        return
    settle_memory()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await door.close()
    await sync_to_async(tallies.flush)()
    await send({"type": "lifespan.shutdown.complete"})


def settle_memory() -> None:
    """What was loaded stays: the collector need not walk it again, nor run for every few hundred small objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def nobody(_: Scope, receive: Receive, send: Send) -> None:
    """A socket at an address that is none: refused before the handshake (the server answers 403)."""
    await receive()
    await send({"type": "websocket.close"})


async def alive(send: Send) -> None:
    """The bare sign of life: this process answers. Whether the desk can work is `/readyz`."""
    headers = [(b"content-type", b"text/plain"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok\n"})
