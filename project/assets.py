"""Static files are copied, hashed and compressed once for each state of the tree."""

import hashlib

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.management import call_command

STAMP = ".collected"  # in STATIC_ROOT; holds the fingerprint of what was collected


def fingerprint() -> str:
    """Changes whenever a file that would be collected is added, removed or touched."""
    known = hashlib.sha256()
    for finder in finders.get_finders():
        for path, storage in finder.list([]):
            known.update(f"{path} {storage.size(path)} {storage.get_modified_time(path).timestamp()}\n".encode())
    return known.hexdigest()


def collect() -> int:
    """Collect when needed; returns how many files stand ready, 0 when nothing had to be done."""
    stamp = settings.STATIC_ROOT / STAMP
    now = fingerprint()
    if stamp.exists() and stamp.read_text() == now:
        return 0
    call_command("collectstatic", interactive=False, clear=True, verbosity=0)
    stamp.write_text(now)
    return sum(1 for path in settings.STATIC_ROOT.rglob("*") if path.is_file())
