"""`python -m project.celery_main worker|beat …`: the two programs of Celery that a desk runs, with its own options.

Its umbrella command `celery` loads a shell and a dozen monitors beside them."""

import sys

from celery.bin.base import CLIContext
from celery.bin.beat import beat
from celery.bin.worker import worker

from project import celery_app

PROGRAMS = {"worker": worker, "beat": beat}


def main(name: str, *options: str) -> None:
    """Runs until a signal comes; raises SystemExit."""
    context = CLIContext(app=celery_app, no_color=None, workdir=None, quiet=True)
    PROGRAMS[name].main(args=list(options), prog_name=f"celery {name}", obj=context)


if __name__ == "__main__":
    main(*sys.argv[1:])
