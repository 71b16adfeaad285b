"""An agent is made in the browser, an issue rings, it asks for a pull request, a person nods, the reporter is told."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests import scripted_model
from tests.processes import Desk, desk
from tests.scripted_model import Asked, Line, Model, calls, says

pytestmark = pytest.mark.browser
FIX = {
    "repo": "acme/shop",
    "base": "main",
    "title": "Fix the typo",
    "body": "As the issue says.",
    "files": [{"path": "README.md", "content": "You will receive a mail."}],
}


def line(asked: Asked) -> Line:
    """First the pull request, then a word to the reporter, then the end."""
    done = sum(message["role"] == "tool" for message in asked["messages"])
    if done == 0:
        return calls(("github_create_pr", FIX), ids=("c1",))
    if done == 1:
        return calls(("github_comment", {"repo": "acme/shop", "number": 7, "body": "A fix is open."}), ids=("c2",))
    return says("The fix is open and the reporter knows.")


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with scripted_model.serving(line) as model:
        yield model


@pytest.fixture(scope="module")
def shop(model: Model) -> Iterator[Desk]:
    told = {"LLM_MODEL": "openai:scripted", "LLM_BASE_URL": model.url}
    with desk(OWNER_PASSWORD="a long enough password", **told) as made:
        made.start()
        made.python("from triggers.models import Trigger; Trigger.objects.update(enabled=False)")
        yield made
        made.tell(40)


def test_from_its_instructions_to_the_comment(shop, opens, model):
    editor = opens("owner", "/triggers/new?source=github&type_pattern=github.issues.opened&handler=agent")
    expect(editor.locator("#config .tip.warn")).to_have_count(0)
    editor.fill("[name=config-instructions]", "Fix the issue {event.data.issue.title}, then tell the reporter.")
    editor.fill("[name=config-tools]", "github.create_pr\ngithub.comment")
    editor.fill("[name=name]", "Fix issues")
    editor.fill("[name=slug]", "fix-issues")
    editor.get_by_role("button", name="Save and turn on").click()
    editor.wait_for_url("**/triggers/fix-issues")

    home = editor.context.new_page()
    home.goto("/")
    expect(home.locator("html")).to_have_attribute("data-conn", "live")
    shop.command("ring", "github-issue")
    expect(home.locator("#rail .count.wait")).to_have_text("1")
    home.goto("/approvals")
    card = home.locator("#detail")
    expect(card).to_contain_text("Fix the typo")
    expect(card).to_contain_text("proposed by agent from event E-")
    assert model.paid == 1
    home.click("button[value=approve]")
    expect(card.locator(".toast")).to_contain_text("Approved.")
    shop.until(lambda: shop.count("triggers_run", "status = 'succeeded'"), seconds=60)

    practice = editor.context.new_page()
    practice.goto("/practice")
    expect(practice.locator("#posts article")).to_have_count(2)
    expect(practice.locator("#posts")).to_contain_text("A fix is open.")
    number = shop.rows("SELECT id FROM triggers_run WHERE handler = 'agent'")[0][0]
    practice.goto(f"/runs/{number}")
    expect(practice.locator("main")).to_contain_text("The fix is open and the reporter knows.")
    expect(practice.locator("main")).to_contain_text("turn 3")
    expect(practice.locator("main")).to_contain_text("360")
    assert model.paid == 3
