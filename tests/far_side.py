"""What every pretended far side shares: a server on loopback that ends with its block, and faults on request."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from socketserver import TCPServer
from typing import Any, Self


@dataclass(kw_only=True)
class FarSide:
    """`make_server()` says what serves; `next()` says what happens to the calls that follow, one each."""

    faults: deque[Any] = field(default_factory=deque)
    closing: threading.Event = field(default_factory=threading.Event)

    def make_server(self) -> TCPServer:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.server = self.make_server()
        self.server.daemon_threads = True  # type: ignore[attr-defined]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def next(self, *faults: Any) -> None:
        """None is a normal one."""
        self.faults.extend(faults)
