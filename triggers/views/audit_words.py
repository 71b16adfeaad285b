"""The words of the audit log as a page says them. What is kept, exported and sealed is the English."""

from project.lib.language import words

VERBS = (
    *(
        words("admit"),
        words("approve"),
        words("archive"),
        words("assign"),
        words("ask for more"),
        words("ask to archive"),
    ),
    *(words("ask to cancel"), words("ask to change"), words("ask to create"), words("back-fill"), words("begin")),
    *(words("bulk cancel"), words("bulk dismiss"), words("bulk redrive"), words("bulk run_again"), words("cancel")),
    *(words("change"), words("change password"), words("changed outside the desk"), words("close the breaker")),
    *(words("confirm"), words("consume"), words("create"), words("delete"), words("deliver"), words("disable")),
    words("dismiss"),
    *(words("edit"), words("enable"), words("enrol an authenticator"), words("escalate"), words("expire")),
    *(words("fail"), words("find fine"), words("find wrong"), words("freeze"), words("join")),
    *(words("keep the effect"), words("leave"), words("lift"), words("link"), words("lose")),
    *(words("make recovery codes"), words("open the breaker"), words("pause"), words("pin"), words("propose")),
    *(words("put back"), words("redrive"), words("reject")),
    *(words("remove the authenticator"), words("resume"), words("revoke"), words("ring"), words("run again")),
    *(words("say delivered"), words("say failed"), words("say not_sent"), words("send again"), words("send once more")),
    *(words("send test"), words("set password"), words("start"), words("stop"), words("supersede")),
    *(words("take back"),),
    *(words("unblock: cancel"), words("unblock: continue"), words("unblock: restart"), words("undo")),
    *(words("unlink"), words("unpin"), words("use a recovery code"), words("withdraw")),
)
DETAILS = (
    *(words("channel"), words("connection"), words("difference"), words("digest"), words("edited"), words("ends at")),
    *(words("agent"), words("machine"), words("tier"), words("tour"), words("number"), words("key"), words("level")),
    *(words("identity"), words("as action"), words("as run"), words("from step"), words("first start")),
    *(words("command"), words("by"), words("to")),
    *(words("event"), words("failures"), words("fields"), words("filter"), words("name"), words("note")),
    *(words("person"), words("policy"), words("reason"), words("reasons"), words("revision"), words("rule")),
    *(words("run"), words("saw"), words("scopes"), words("since"), words("slots"), words("starts at")),
    *(words("status"), words("step"), words("total"), words("trigger"), words("until"), words("why")),
)
YES_AND_NO = (words("yes"), words("no"))
