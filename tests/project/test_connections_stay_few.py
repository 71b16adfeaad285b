"""The web process of a real desk keeps few connections to PostgreSQL, however many people look at once."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg

from project.backends import POOL
from tests.conftest import until
from tests.processes import desk

WAVES, WIDTH = 15, 20
OTHERS = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def test_three_hundred_requests_leave_no_more_connections_than_the_pool_has(postgres_server: str) -> None:
    """BP-05."""
    with desk(postgres_server) as shop:
        shop.start("--bare", "--processes", "web", ready=False)
        until(lambda: answers(f"{shop.url}/healthz"), seconds=120)
        client = shop.token("read")
        with psycopg.connect(shop.database_url, autocommit=True) as watcher, ThreadPoolExecutor(WIDTH) as people:

            def opened() -> int:
                return watcher.execute(f"SELECT count(*) FROM {OTHERS}").fetchone()[0]

            most = 0
            for _ in range(WAVES):
                told = list(people.map(lambda _: client.get("/api/v1/triggers").status_code, range(WIDTH)))
                assert told == [200] * WIDTH
                most = max(most, opened())
            assert most <= POOL["max_size"]
            watcher.execute(f"SELECT pg_terminate_backend(pid) FROM {OTHERS}")
            seen: list[int] = []
            until(lambda: seen.append(client.get("/api/v1/triggers").status_code) or seen[-1] == 200, seconds=60)
            assert opened() <= POOL["max_size"]


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
