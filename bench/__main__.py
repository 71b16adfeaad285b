"""`python -m bench [FIGURE] [its options]`: one JSON line a figure; without a name, all of them (FIGURES)."""

import shutil
import sys

from bench import agents, decision, door, files, idle, pages, plans, runs, start, timers, verify

FIGURES = {
    "door": door.main,
    "verify": verify.main,
    "start": start.main,
    "decision": decision.main,
    "idle": idle.main,
    "files": files.main,
    "runs": runs.main,
    "timers": timers.main,
    "pages": pages.main,
    "plans": plans.main,
    "agents": agents.main,
}


def main(arguments: list[str]) -> None:
    name, options = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name and name not in FIGURES:
        raise SystemExit(f"bench: no figure {name!r}; there are: {', '.join(FIGURES)}")
    if name in ("", "door", "verify") and shutil.which("wrk") is None:
        raise SystemExit("bench: wrk is missing (on Debian and Ubuntu: apt-get install wrk)")
    for figure in [FIGURES[name]] if name else FIGURES.values():
        figure(options)
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
