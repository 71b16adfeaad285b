"""Two who keep their connections and begin at one barrier: a race costs what it does, not what it takes to begin."""

import random
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from django.db import DatabaseError, connection

Deed = Callable[[], Any]
STEP = 0.0005  # seconds: who won begins that much later the next time
MOST = 0.02  # seconds: and that much once he has won several times in a row
SPREAD = 0.003  # seconds by which chance moves it, so that they meet at every point of each other's way
PATIENCE = 60.0  # seconds for a deed


class Balance:
    """Seconds that lean against whoever won last, faster while it is the same one: so the two keep meeting."""

    def __init__(self, value: float = 0.0) -> None:
        self.value, self.step = value, STEP
        self.last: bool | None = None

    def won(self, left: bool) -> None:
        self.step = min(MOST, self.step * 1.5) if left == self.last else STEP
        self.value += self.step if left else -self.step
        self.last = left


class Crew:
    """Two threads. `race` gives, in order, what each deed returned or raised."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.barrier = threading.Barrier(3)  # the two, and who sends them
        self.deeds: list[Deed] = []
        self.results: list[Any] = [None, None]
        self.lag = Balance()  # seconds the left one waits; below zero the right one does
        self.lags = [0.0, 0.0]
        self.crew = [threading.Thread(target=self.live, args=[place], daemon=True) for place in range(2)]

    def __enter__(self) -> Self:
        for one in self.crew:
            one.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.barrier.abort()
        for one in self.crew:
            one.join(PATIENCE)

    def race(self, left: Deed, right: Deed) -> tuple[Any, Any]:
        """Both at once, one of them a little later. An error of the database, which no door may let out, is raised."""
        late = self.lag.value + self.chance.uniform(-SPREAD, SPREAD)
        self.deeds, self.lags = [left, right], [max(0.0, late), max(0.0, -late)]
        self.barrier.wait(PATIENCE)
        self.barrier.wait(PATIENCE)
        for result in self.results:
            if isinstance(result, DatabaseError):
                raise result
        return self.results[0], self.results[1]

    def live(self, place: int) -> None:
        try:
            while True:
                self.barrier.wait()
                time.sleep(self.lags[place])
                try:
                    self.results[place] = self.deeds[place]()
                except BaseException as error:
                    self.results[place] = error
                self.barrier.wait()
        except threading.BrokenBarrierError:
            pass  # the races are over
        finally:
            connection.close()
