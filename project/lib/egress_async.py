"""The same guarded way out for libraries that call by an asynchronous client of httpx2."""

import asyncio
from datetime import timedelta

import httpx
import httpx2
from django.conf import settings

from project.lib.addresses import AllowList
from project.lib.egress import CONNECT_TIMEOUT, Guard, system_resolver, trust


class Guarded(httpx2.AsyncHTTPTransport):
    """Each request goes to an address of the name that was checked in this moment, under the name for Host and TLS."""

    def __init__(self) -> None:
        super().__init__(verify=trust(), trust_env=False)
        self.guard = Guard(AllowList(settings.EGRESS_ALLOW), system_resolver)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = httpx.URL(str(request.url))
        self.guard.check_url(url)
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        [address, *_] = await asyncio.to_thread(self.guard.addresses, url.host, port)
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        request.url = request.url.copy_with(host=address)  # the header Host stands already
        return await super().handle_async_request(request)


def client(budget: timedelta, headers: dict[str, str]) -> httpx2.AsyncClient:
    """Raises what a `Session` raises of an address that may not be called: Forbidden, Unreachable."""
    timeout = httpx2.Timeout(budget.total_seconds(), connect=CONNECT_TIMEOUT)
    return httpx2.AsyncClient(
        transport=Guarded(), timeout=timeout, trust_env=False, follow_redirects=False, headers=headers
    )
