"""`new-upload`: look at a file that arrived in a watched folder, check it by rules, and tell our own people."""

import base64
import csv
import hashlib
import io
import os
from typing import Any

from django.conf import settings

from approvals.act import NoConnection, act
from triggers.durable import Durable
from triggers.errors import NotValid, Permanent
from triggers.registry import handler
from triggers.sources.file import refuse_outside
from triggers.sources.unlinked import open_file

READ_TO = 16 * 1024 * 1024  # bytes of a file that are looked into
PROGRAMS = (b"\x7fELF", b"MZ", b"#!", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe")
BEGINS = {  # what files of these names begin with
    "pdf": b"%PDF-",
    "png": b"\x89PNG\r\n\x1a\n",
    "jpg": b"\xff\xd8\xff",
    "jpeg": b"\xff\xd8\xff",
    "gif": b"GIF8",
    "zip": b"PK",
    "xlsx": b"PK",
    "docx": b"PK",
    "gz": b"\x1f\x8b",
}
TEXTS = ("csv", "txt", "json", "md", "xml", "html")


@handler("new-upload", version="1")
def new_upload(run: Durable) -> dict[str, Any]:
    """Read what arrived, check that it is what its name says, and tell our people, louder when it is not."""
    upload = run.step("read the upload", read_upload, run.event.data)
    if upload["gone"]:
        run.log(f"{upload['name']} went before it was read")
        return {"outcome": "gone", **upload}
    faults = run.step("check it", check, upload)
    run.log(f"checked by rules: {'; '.join(faults) or 'nothing to object to'}")
    try:
        act(
            run,
            "tell our people",
            kind="notify.send",
            key=f"upload-{run.event.ce_id}",
            reason="Somebody waits for this file.",
            title=f"{'Look at this upload' if faults else 'New upload'}: {upload['name']}"[:200],
            text=f"{in_words(upload, faults)}\n{settings.BASE_URL}/events/{run.event.pk}",
            severity="warning" if faults else "info",
        )
    except NoConnection as missing:
        run.log(f"nobody was told: {missing}")
    return {"outcome": "doubtful" if faults else "fine", "faults": faults, **upload}


def read_upload(data: Any) -> dict[str, Any]:
    """What the file is now, by its own bytes; Permanent when the event tells of no file that is there."""
    if not isinstance(data, dict) or not isinstance(data.get("path"), str) or data.get("kind") == "deleted":
        raise Permanent("this event carries no file; new-upload reads what a file source tells of a file that is there")
    path = base64.b64decode(data["path_base64"]) if data.get("path_base64") else os.fsencode(data["path"])
    try:
        place = refuse_outside(os.fsdecode(path))
    except NotValid as refused:
        raise Permanent(refused.detail) from refused
    name = str(data.get("name", ""))
    facts = {"name": name, "told_sha256": data.get("sha256"), "gone": False}
    try:
        with open_file(os.fsencode(place)) as file:
            head, size = file.read(READ_TO), os.fstat(file.fileno()).st_size
    except (FileNotFoundError, NotADirectoryError):
        return facts | {"gone": True}
    digest = hashlib.sha256(head).hexdigest() if size <= READ_TO else None
    sort = name.rpartition(".")[2].lower() if "." in name else ""
    return facts | {"size": size, "sha256": digest, "sort": sort, **looked_into(head, sort, whole=size <= READ_TO)}


def looked_into(head: bytes, sort: str, *, whole: bool) -> dict[str, Any]:
    """What its bytes say: whether it is text, how it begins, and of a table its columns and rows."""
    try:
        text = head.decode() if whole and b"\x00" not in head else None
    except UnicodeDecodeError:
        text = None
    begins = BEGINS.get(sort)
    found: dict[str, Any] = {
        "is_text": text is not None,
        "is_program": head.startswith(PROGRAMS),
        "begins_right": head.startswith(begins) if begins else None,
    }
    if sort == "csv" and text:
        found |= table_of(text)
    return found


def table_of(text: str) -> dict[str, Any]:
    """Its columns and rows, whatever ends its lines; or why it is no table."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:  # such as a field of more than 131,072 characters
        return {"no_table": str(error)}
    widths = {len(row) for row in rows}
    return {"columns": rows[0][:50] if rows else [], "rows": max(0, len(rows) - 1), "is_even": len(widths) <= 1}


def check(upload: dict[str, Any]) -> list[str]:
    """What is wrong with it, in sentences."""
    sort, told = upload["sort"], upload["told_sha256"]
    faults = [
        (upload["size"] == 0, "it is empty"),
        (bool(told and upload["sha256"] and told != upload["sha256"]), "it changed again since it was noticed"),
        (upload["is_program"], "it is a program"),
        (upload["begins_right"] is False and upload["size"] > 0, f"it is no .{sort} inside"),
        (sort in TEXTS and not upload["is_text"] and upload["size"] <= READ_TO, f"a .{sort} file is text; this is not"),
        ("no_table" in upload, f"it cannot be read as a table: {upload.get('no_table')}"),
        (upload.get("is_even") is False, "its rows do not all have the same number of columns"),
    ]
    return [words for wrong, words in faults if wrong]


def in_words(upload: dict[str, Any], faults: list[str]) -> str:
    lines = [f"{upload['name']}, {upload['size']:,} bytes"]
    if "rows" in upload:
        lines.append(f"{upload['rows']} rows of {', '.join(upload['columns'])}"[:1000])
    lines += [f"- {fault}" for fault in faults] or ["It is what its name says."]
    return "\n".join(lines)
