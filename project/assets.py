"""Static files are copied, hashed and compressed once for each state of the tree; our own without their comments."""

import hashlib
import re
from pathlib import PurePath
from typing import Any

from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.files.base import ContentFile
from django.core.management import call_command
from servestatic.storage import CompressedManifestStaticFilesStorage

STAMP = ".collected"  # in STATIC_ROOT; holds the fingerprint of what was collected
KEPT = re.compile(r'("[^"]*")|/\*.*?\*/', re.DOTALL)  # texts stay as they are, comments go
LOOSE = re.compile(r"\s*([{};,>])\s*|(:)\s+|(\s)\s*")
ASIDE = re.compile(r"^[ \t]*//.*\n|^[ \t]+", re.MULTILINE)  # a line of comment; what a line is indented by


class Files(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """What is served under `/static/`."""

    def save(self, name: str | None, content: Any, max_length: int | None = None) -> str:
        less = LESS.get(PurePath(name or "").suffix)
        if name and less and "/" not in name:
            content = ContentFile(less(content.read().decode()).encode())
        return str(super().save(name, content, max_length))


def lean(css: str) -> str:
    """The same rules without comments and blank space."""
    pieces = KEPT.split(css)  # every second one is a text, or None where a comment stood
    tight = [LOOSE.sub(r"\1\2\3", piece) if at % 2 == 0 else piece or "" for at, piece in enumerate(pieces)]
    return "".join(tight).replace(";}", "}").strip()


def lean_script(script: str) -> str:
    """The same statements without indents and lines of comment; no text of ours goes over more than one line."""
    return ASIDE.sub("", script)


LESS = {".css": lean, ".js": lean_script}


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
