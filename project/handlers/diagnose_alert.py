"""`diagnose-alert`: say what an alert of Grafana or Alertmanager probably means, and propose its runbook.

It works by rules and says so; no model is asked. Which runbook (an address that is called once a person nods) belongs
to which cause stands in the trigger's config."""

import hashlib
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from approvals.act import Expired, NoConnection, Rejected, act
from triggers.durable import Durable
from triggers.errors import Permanent
from triggers.registry import handler

WEB = re.compile(r"https?://[^\s/?#]+(?:[/?#]\S*)?")
KEPT = 20  # alerts of one group that are named
CAUSES = (  # (cause, what its alerts are called, what it probably means)
    (
        "disk_full",
        r"disk|filesystem|volume|inode|no space",
        "A disk fills up: first old logs and images, then what grows.",
    ),
    ("memory", r"memory|oom|swap", "Memory runs short: what grew since the last release? A restart only gains time."),
    ("cpu", r"cpu|(?<![a-z])load", "Processors are busy: the newest deployment, or a loop that retries."),
    ("certificate", r"certif|tls|ssl|expir", "A certificate ends soon: renew it, and see why nothing renewed it."),
    ("queue", r"queue|(?<![a-z])lag|backlog|consumer", "Work piles up: too few consumers, or one that hangs."),
    (
        "errors",
        r"error|5xx|fail|exception",
        "Something fails more often than usual: compare with the newest deployment.",
    ),
    ("latency", r"latency|slow|duration|p9\d", "Answers are slow: look at the database and at what it waits for."),
    ("down", r"down|absent|unreachable|dead", "Something does not answer: is the machine gone, or only the service?"),
)


class Config(BaseModel):
    """`runbooks`: cause -> address; it is called by POST with the alert, after a nod."""

    model_config = ConfigDict(extra="forbid")

    runbooks: dict[str, str] = Field(default={}, max_length=50)

    @field_validator("runbooks")
    @classmethod
    def known_and_callable(cls, value: dict[str, str]) -> dict[str, str]:
        causes = {cause for cause, _, _ in CAUSES} | {"unknown"}
        for cause, url in value.items():
            if cause not in causes:
                raise ValueError(f"`{cause}` is no cause; there are {', '.join(sorted(causes))}")
            if not WEB.fullmatch(url):
                raise ValueError(f"the runbook of {cause} must be an http or https address")
        return value


@handler("diagnose-alert", version="1", config=Config)
def diagnose_alert(run: Durable) -> dict[str, Any]:
    """Diagnose a group of alerts by rules, tell who is on call, and propose the runbook for the cause."""
    alert = run.step("read the alert", read_alert, run.event.data)
    plan = run.step("diagnose", diagnose, alert)
    run.log(f"diagnosed by rules, no model was asked: {plan['cause']}")
    try:
        act(run, "tell who is on call", kind="slack.post", key=f"alert-{alert['key']}-told", text=in_words(alert, plan))
    except NoConnection as missing:
        run.log(f"nobody was told: {missing}")
    url = run.config.runbooks.get(plan["cause"])
    if alert["status"] != "firing" or not url:
        return {"by": "rules", "outcome": "told", **plan, "status": alert["status"]}
    return {"by": "rules", "outcome": runbook(run, alert, plan, url), **plan, "status": alert["status"]}


def runbook(run: Durable, alert: dict[str, Any], plan: dict[str, Any], url: str) -> str:
    """What became of the proposal to call the runbook."""
    try:
        act(
            run,
            "run the runbook",
            kind="http.request",
            key=f"alert-{alert['key']}-runbook",
            reason=f"{alert['title']}: {plan['advice']}"[:1000],
            evidence=[{"text": line, "for": True} for line in alert["lines"][:5]],
            url=url,
            json={"cause": plan["cause"], "alert": alert["title"], "labels": alert["labels"]},
        )
    except (Rejected, Expired, NoConnection) as no:
        run.log(f"the runbook was not called: {no}")
        return "not_approved"
    return "runbook_called"


def read_alert(data: Any) -> dict[str, Any]:
    """One group of alerts; Permanent when the delivery holds none."""
    alerts = data.get("alerts") if isinstance(data, dict) else None
    if not isinstance(alerts, list) or not any(isinstance(one, dict) for one in alerts):
        raise Permanent("this delivery carries no alerts; diagnose-alert reads webhooks of Grafana and Alertmanager")
    alerts = [one for one in alerts if isinstance(one, dict)]
    labels = texts(data.get("commonLabels")) or texts(alerts[0].get("labels"))
    notes = texts(data.get("commonAnnotations")) or texts(alerts[0].get("annotations"))
    status = str(data.get("status", "firing"))
    start = sorted(str(one.get("startsAt", "")) for one in alerts)
    marks = sorted(str(one.get("fingerprint", "")) for one in alerts)
    key = hashlib.sha256("\n".join([str(data.get("groupKey", "")), status, *marks, *start]).encode()).hexdigest()
    return {
        "key": key[:24],
        "status": status,
        "title": str(data.get("title") or labels.get("alertname") or "An alert")[:200],
        "severity": labels.get("severity", ""),
        "summary": (notes.get("summary") or notes.get("description") or str(data.get("message") or ""))[:1000],
        "labels": labels,
        "lines": [line_of(one) for one in alerts[:KEPT]],
        "count": len(alerts),
    }


def texts(value: Any) -> dict[str, str]:
    """The labels or annotations among `value`, as short texts."""
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(name)[:100]: str(text)[:500] for name, text in list(pairs)[:50]}


def line_of(one: dict[str, Any]) -> str:
    labels, notes = texts(one.get("labels")), texts(one.get("annotations"))
    where = labels.get("instance") or labels.get("pod") or labels.get("job") or labels.get("alertname", "")
    return f"{where}: {notes.get('summary') or notes.get('description') or one.get('valueString') or ''}"[:300].strip(
        ": "
    )


def diagnose(alert: dict[str, Any]) -> dict[str, str]:
    """`{cause, advice}` by the first rule whose words stand in the alert's name, then in its summary."""
    for text in (f"{alert['labels'].get('alertname', '')} {alert['title']}", alert["summary"]):
        for cause, words, advice in CAUSES:
            if re.search(words, text, re.IGNORECASE):
                return {"cause": cause, "advice": advice}
    return {"cause": "unknown", "advice": "No rule knows this alert; a person has to look."}


def in_words(alert: dict[str, Any], plan: dict[str, str]) -> str:
    if alert["status"] == "resolved":
        return f"Resolved: {alert['title']}"
    severity = f" ({alert['severity']})" if alert["severity"] else ""
    shown = alert["lines"][:5]
    summary = "" if any(alert["summary"] in line for line in shown) else alert["summary"]
    lines = [f"{alert['title']}{severity}", summary, *shown]
    if alert["count"] > 5:
        lines.append(f"and {alert['count'] - 5} more")
    return "\n".join([*(line for line in lines if line), f"Probably {plan['cause']}: {plan['advice']}"])
