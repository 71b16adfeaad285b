"""What the other providers of the catalogue would send: shaped like real deliveries, with a new number each time."""

import json
import time
from typing import Any
from urllib.parse import urlencode

from project.sample_bodies import SAMPLES as OF_THE_TOUR
from project.sample_bodies import Made, Sample, fresh_id, now_text

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MONA = {"id": "U4711", "name": "mona"}


def gitlab(number: int) -> Made:
    headers = {"X-Gitlab-Event": "Issue Hook", "Idempotency-Key": fresh_id()}
    return headers, {"object_kind": "issue", "object_attributes": {"iid": number, "title": "Tea is cold"}}


def bitbucket(number: int) -> Made:
    headers = {"X-Event-Key": "repo:push", "X-Request-UUID": fresh_id()}
    return headers, {"repository": {"full_name": "acme/shop"}, "push": {"changes": [{"new": {"name": f"v{number}"}}]}}


def jira(number: int) -> Made:
    issue = {"key": f"SHOP-{number}", "fields": {"summary": "Tea is cold"}}
    return {"X-Atlassian-Webhook-Identifier": fresh_id()}, {"webhookEvent": "jira:issue_updated", "issue": issue}


def stripe(number: int) -> Made:
    charge = {"id": f"ch_{number}", "object": "charge", "amount": 4990, "currency": "eur", "disputed": True}
    return {}, {"id": fresh_id(), "object": "event", "type": "charge.dispute.created", "data": {"object": charge}}


def slack(number: int) -> Made:
    told = {"type": "app_mention", "channel": "C815", "user": MONA["id"], "ts": f"{number}.0", "text": "<@U1> report"}
    return {}, {"type": "event_callback", "team_id": "T42", "event_id": fresh_id(), "event": told}


def slack_command(number: int) -> Made:
    fields = {"command": "/desk", "text": f"order {number}", "user_id": MONA["id"], "channel_id": "C815"}
    return FORM, urlencode(fields | {"team_id": "T42", "trigger_id": fresh_id()})


def slack_button(number: int) -> Made:
    button = {"action_id": "restock", "value": str(number)}
    pressed = {"type": "block_actions", "trigger_id": fresh_id(), "user": MONA, "channel": {"id": "C815"}}
    return FORM, urlencode({"payload": json.dumps({**pressed, "actions": [button]})})


def standard_webhooks(number: int) -> Made:
    return {"webhook-id": fresh_id()}, {"type": "contact.created", "timestamp": now_text(), "data": {"id": number}}


def svix(number: int) -> Made:
    return {"svix-id": fresh_id()}, {"type": "invoice.paid", "data": {"id": number}}


def linear(number: int) -> Made:
    headers = {"Linear-Event": "Issue", "Linear-Delivery": fresh_id()}
    issue = {"identifier": f"SHOP-{number}", "title": "Tea is cold"}
    return headers, {"action": "create", "type": "Issue", "data": issue, "webhookTimestamp": int(time.time() * 1000)}


def pagerduty(number: int) -> Made:
    incident = {"id": f"P{number}", "title": "The till is down", "urgency": "high"}
    told = {"id": fresh_id(), "event_type": "incident.triggered", "data": incident}
    return {"X-Webhook-Id": fresh_id()}, {"event": told}


def sentry(number: int) -> Made:
    headers = {"Sentry-Hook-Resource": "issue", "Request-ID": fresh_id()}
    return headers, {"action": "created", "data": {"issue": {"id": str(number), "title": "KeyError: 'tea'"}}}


def twilio(number: int) -> Made:
    fields = {"MessageSid": f"SM{number:032d}", "SmsStatus": "received", "From": "+14155550100", "Body": "Is it open?"}
    return FORM, urlencode(fields)


def sendgrid(number: int) -> Made:
    item = {"email": "ann@example.org", "event": "bounce", "sg_event_id": fresh_id(), "reason": f"550 {number}"}
    return {}, [item]


def mailgun(number: int) -> Made:
    marks = {"timestamp": str(int(time.time())), "token": fresh_id()}
    told = {"id": fresh_id(), "event": "failed", "recipient": "ann@example.org", "message": {"size": number}}
    return {}, {"signature": marks, "event-data": told}


def square(number: int) -> Made:
    payment = {"id": f"pay-{number}", "amount_money": {"amount": 4990, "currency": "EUR"}}
    return {}, {"event_id": fresh_id(), "type": "payment.updated", "merchant_id": "M42", "data": payment}


def zoom(number: int) -> Made:
    meeting = {"uuid": fresh_id(), "id": str(number), "topic": "Tea"}
    return {}, {"event": "meeting.ended", "event_ts": int(time.time() * 1000), "payload": {"object": meeting}}


def discord(number: int) -> Made:
    command = {"name": "desk", "options": [{"name": "order", "value": number}]}
    return {}, {"type": 2, "id": fresh_id(), "channel_id": "815", "member": {"user": MONA}, "data": command}


def telegram(number: int) -> Made:
    message = {"message_id": number, "chat": {"id": 815}, "from": {"username": "mona"}, "text": "/report"}
    return {}, {"update_id": number, "message": message}


def aws_sns(number: int) -> Made:
    told = {"Type": "Notification", "MessageId": fresh_id(), "Message": f"order {number}", "Timestamp": now_text()}
    return {"Content-Type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": "Notification"}, told


def azure_eventgrid(number: int) -> Made:
    blob = {"url": f"https://acme.example/orders/{number}.csv"}
    item = {"id": fresh_id(), "eventType": "Microsoft.Storage.BlobCreated", "subject": "/orders", "data": blob}
    return {}, [item | {"eventTime": now_text(), "dataVersion": "1"}]


def feishu(number: int) -> Made:
    text = json.dumps({"text": f"@_user_1 order {number}"})
    message: dict[str, Any] = {"message_id": fresh_id(), "chat_id": "oc_815", "message_type": "text", "content": text}
    message["mentions"] = [{"key": "@_user_1", "id": {"open_id": "ou_desk"}, "name": "Desk"}]
    header = {"event_id": fresh_id(), "event_type": "im.message.receive_v1", "app_id": "cli_42"}
    sender = {"sender_id": {"open_id": "ou_mona"}, "sender_type": "user"}
    return {}, {"schema": "2.0", "header": header, "event": {"sender": sender, "message": message}}


def dingtalk(number: int) -> Made:
    return {}, {"EventType": "user_add_org", "CorpId": "ding42", "UserId": [f"u-{number}"], "TimeStamp": now_text()}


def wecom(number: int) -> Made:
    inner = (
        "<xml><ToUserName><![CDATA[ww42]]></ToUserName><FromUserName><![CDATA[mona]]></FromUserName>"
        f"<CreateTime>{int(time.time())}</CreateTime><MsgType><![CDATA[text]]></MsgType>"
        f"<Content><![CDATA[order {number}]]></Content><MsgId>{time.time_ns()}</MsgId><AgentID>1</AgentID></xml>"
    )
    return {"Content-Type": "text/xml"}, inner


OTHERS: dict[str, Sample] = {
    name: Sample(name.partition("-")[0], about, make)
    for name, about, make in (
        ("gitlab", "an issue changed", gitlab),
        ("bitbucket", "a push", bitbucket),
        ("jira", "an issue changed", jira),
        ("stripe", "a charge is disputed", stripe),
        ("slack", "somebody mentions the app", slack),
        ("slack-command", "somebody runs the app's command", slack_command),
        ("slack-button", "somebody presses a button of the app", slack_button),
        ("standard_webhooks", "a contact was made, signed as Standard Webhooks say", standard_webhooks),
        ("svix", "an invoice was paid, sent by Svix", svix),
        ("linear", "an issue was made", linear),
        ("pagerduty", "an incident begins", pagerduty),
        ("sentry", "a new error", sentry),
        ("twilio", "a text message arrives", twilio),
        ("sendgrid", "a mail bounced", sendgrid),
        ("mailgun", "a mail could not be delivered", mailgun),
        ("square", "a payment changed", square),
        ("zoom", "a meeting ended", zoom),
        ("discord", "somebody runs the app's command", discord),
        ("telegram", "somebody writes to the bot", telegram),
        ("aws_sns", "a message of a topic", aws_sns),
        ("azure_eventgrid", "a file was stored", azure_eventgrid),
        ("feishu", "somebody mentions the bot", feishu),
        ("dingtalk", "somebody joined the company", dingtalk),
        ("wecom", "somebody writes to the app", wecom),
    )
}
SAMPLES = OF_THE_TOUR | OTHERS
