"""The product's settings with armed failpoints (tests/chaos/faults.py) and, for some, a wrong clock of their own.

NIGHTDESK_CLOCK_OFF: seconds by which the clock of every process of this desk is off; the database's is right.
"""

import os
from datetime import UTC, datetime, timedelta

import time_machine

from project.settings import *  # noqa: F403
from tests.chaos import faults

faults.arm()
if off := float(os.environ.get("NIGHTDESK_CLOCK_OFF", "0")):
    time_machine.travel(datetime.now(UTC) + timedelta(seconds=off)).start()
