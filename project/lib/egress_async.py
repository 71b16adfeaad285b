"""The same guarded way out for libraries that call by an asynchronous client of httpx2."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import httpx2
from django.conf import settings

from project.lib.addresses import AllowList
from project.lib.egress import CONNECT_TIMEOUT, EgressError, Guard, system_resolver, trust

MAX_ANSWER = 8 * 1024 * 1024  # bytes; a longer answer is none: these libraries keep it whole


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
        request.headers["accept-encoding"] = "identity"
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise EgressError(f"{url.host} packed its answer, and nobody knows how long it is")
        response.stream = Bounded(url.host, response.stream)
        return response


class Bounded(httpx2.AsyncByteStream):
    """The body of an answer as it comes, up to MAX_ANSWER. Raises EgressError beyond."""

    def __init__(self, host: str, stream: Any) -> None:
        self.host, self.stream = host, stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for piece in self.stream:
            read += len(piece)
            if read > MAX_ANSWER:
                raise EgressError(f"{self.host} answers with more than {MAX_ANSWER:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self.stream.aclose()


def client(budget: timedelta, headers: dict[str, str]) -> httpx2.AsyncClient:
    """Raises what a `Session` raises of an address that may not be called: Forbidden, Unreachable."""
    timeout = httpx2.Timeout(budget.total_seconds(), connect=CONNECT_TIMEOUT)
    return httpx2.AsyncClient(
        transport=Guarded(), timeout=timeout, trust_env=False, follow_redirects=False, headers=headers
    )
