"""However many tabs a browser has open, and whatever they show, one socket tells all of them. Without a desk."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, WebSocketRoute, expect

from project import live
from tests.browser import staged

pytestmark = pytest.mark.browser

MANY = range(1, live.MOST_TOPICS + 11)


class Server:
    """What `project.live.Live` does, for the tabs of one browser; `refuses` everything, if told so."""

    def __init__(self, context: BrowserContext) -> None:
        self.seq = 1
        self.refuses = False
        self.opened = self.polled = 0
        self.asked: list[list[str]] = []
        self.open: list[WebSocketRoute] = []
        self.drawn: dict[str, int] = {}
        staged.serve(context, ("hold", "parts", "live"), self.page)
        context.route_web_socket("**/ws/live", self.meet)

    def page(self, path: str) -> str:
        """`/event:1,runs`: a page with a part for each of these topics, which says how often it was drawn."""
        if path.startswith("/api/v1/live"):
            self.polled += 1
            return json.dumps({"seq": f"{self.seq}-0", "changes": [{"topic": "runs", "id": "7"}], "resync": False})
        self.drawn[path] = self.drawn.get(path, 0) + 1
        topics = path[1:].split(",")
        return "".join(f'<p id="p{n}" data-live="{name}">{self.drawn[path]}</p>' for n, name in enumerate(topics))

    def meet(self, socket: WebSocketRoute) -> None:
        self.opened += 1
        self.open.append(socket)
        socket.on_message(lambda text: self.hear(socket, json.loads(str(text))["topics"]))
        socket.on_close(lambda *_: self.leave(socket))

    def hear(self, socket: WebSocketRoute, topics: list[str]) -> None:
        if self.refuses or len(topics) > live.MOST_TOPICS or not all(map(live.is_topic, topics)):
            self.leave(socket)
            socket.close(code=live.NO_SUCH_TOPIC)
            return
        self.asked.append(topics)
        self.tell({"ping": True})

    def leave(self, socket: WebSocketRoute) -> None:
        self.open = [one for one in self.open if one is not socket]

    def tell(self, message: dict[str, object]) -> None:
        self.seq += 1
        for socket in self.open:
            socket.send(json.dumps({"seq": f"{self.seq}-0", **message}))


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    made = chromium.new_context()
    yield made
    made.close()


@pytest.fixture
def server(context: BrowserContext) -> Server:
    return Server(context)


def opens(context: BrowserContext, *topics: str) -> Page:
    tab = context.new_page()
    tab.goto(f"{staged.HERE}/{','.join(topics)}")
    expect(tab.locator("html")).to_have_attribute("data-conn", "live")
    return tab


def drawn(tab: Page) -> list[int]:
    return [int(text) for text in tab.locator("p").all_inner_texts()]


def test_more_topics_than_one_socket_takes_are_told_all_the_same(context, server):
    first = opens(context, "events")
    second = opens(context, *(f"event:{n}" for n in MANY), "action:7")
    assert len(server.open) == server.opened == 1
    assert set(server.asked[-1]) == {"events", "actions", "approvals"}
    server.tell({"topic": "events", "id": "3"})
    server.tell({"topic": "approvals", "id": "7"})
    expect(first.locator("p")).to_have_text("2")
    expect(second.locator("#p2")).not_to_have_text("1")
    expect(second.locator(f"#p{len(MANY)}")).not_to_have_text("1")
    assert drawn(second).count(1) == len(MANY) - 1, "and no other row was drawn anew"
    assert first.locator("html").get_attribute("data-conn") == "live"


def test_what_a_closed_tab_asked_for_is_asked_for_no_more(context, server):
    first = opens(context, "events")
    for n in range(3):
        second = opens(context, f"event:{n}")
        assert set(server.asked[-1]) == {"events", f"event:{n}"}
        if n:
            second.goto(f"{staged.HERE}/runs")  # one that leads elsewhere, or is closed
            expect(second.locator("html")).to_have_attribute("data-conn", "live")
            assert set(server.asked[-1]) == {"events", "runs"}
        second.close()
    opens(context, "triggers")
    assert set(server.asked[-1]) == {"events", "triggers"}
    assert first.locator("html").get_attribute("data-conn") == "live"


def test_a_hint_of_many_rows_is_one_of_each(context, server):
    tab = opens(context, "run:1", "run:2", "runs", "event:1")
    server.tell({"topic": "runs", "id": "*"})
    expect(tab.locator("#p0")).to_have_text("2")
    assert drawn(tab) == [2, 2, 2, 1]
    server.tell({"topic": "runs", "id": ""})  # new ones
    expect(tab.locator("#p2")).to_have_text("3")
    assert drawn(tab) == [2, 2, 3, 1]


def test_a_socket_that_is_refused_is_not_tried_for_ever(context, server):
    server.refuses = True
    tab = context.new_page()
    tab.clock.install()
    tab.goto(f"{staged.HERE}/run:7")
    for _ in range(200):
        tab.clock.run_for(1000)
        tab.wait_for_timeout(10)
    assert server.opened == 2, "by what it shows, then by the lists of that"
    assert server.polled > 10, "and from then on it asks"
    assert tab.locator("html").get_attribute("data-conn") == "polling"
    assert drawn(tab)[0] > 10
