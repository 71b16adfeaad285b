"""Signed deliveries, 1 KB each and none like another, for each way to sign; run inside `manage.py shell`."""

import json
import time
from pathlib import Path
from typing import Any

from project import samples, signing
from project.lib import crypto
from triggers.models import ConfigVersion, Source

SIZE = 1000  # bytes of a body, about
SAMPLES = {
    "github": "github-issue",
    "stripe": "stripe",
    "aws_sns": "aws_sns",
    "discord": "discord",
    "sendgrid": "sendgrid",
}
PADDED = {"aws_sns": "Message"}  # only named fields of it are signed


def make_sources() -> None:
    for provider in SAMPLES:
        secret, config = signing.made_secret(provider, samples.folder())
        sealed = crypto.seal([{"value": secret}])
        told = {"kind": "webhook", "provider": provider, "config": config, "types": ["**"], "rate_limit": None}
        Source.objects.create(slug=provider, name=provider, sealed_secrets=sealed, **told)
    ConfigVersion.bump()


def write(folder: str, count: int) -> None:
    """One file a provider, a delivery a line: its headers and its body, parted by tabs."""
    for provider, name in SAMPLES.items():
        source = Source.objects.get(slug=provider)
        with Path(folder, provider).open("w") as file:
            for number in range(count):
                headers, value = samples.SAMPLES[name].make(number)
                body = json.dumps(padded(provider, value)).encode()
                made = signing.signed(
                    source, {"Content-Type": "application/json", **headers}, body, samples.folder(), time.time()
                )
                told = [f"{key}: {text}" for key, text in made.headers.items()]
                file.write("\t".join([*told, made.body.decode()]) + "\n")


def padded(provider: str, value: Any) -> Any:
    holder = value[0] if isinstance(value, list) else value
    holder[PADDED.get(provider, "note")] = "x" * max(0, SIZE - len(json.dumps(value)))
    return value
