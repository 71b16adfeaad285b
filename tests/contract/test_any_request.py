"""Whatever is sent to the API, it never answers 500, and never in a shape its OpenAPI page does not know."""

from collections.abc import Iterator

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, given, settings, strategies
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance

from project.people.models import SCOPES, ApiToken, User
from tests.contract.world import World

pytestmark = pytest.mark.django_db
schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
OPERATIONS = [found.ok().label for found in schema.get_all_operations()]
CHECKS = [not_a_server_error, response_schema_conformance]


@pytest.fixture(autouse=True)
def _kept_connection() -> Iterator[None]:
    """The end of a request closes no connection: these requests run inside the test's transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


# Not by `schema.parametrize`: its tests share one name, and the processes of the suite take up each name once.
@pytest.mark.parametrize("operation", OPERATIONS)
@given(data=strategies.data())
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_said_about_a_row_that_exists_makes_it_break(
    data: strategies.DataObject, operation: str, world: World, owner: User
) -> None:
    case = data.draw(schema.find_operation_by_label(operation).as_strategy())
    segments = case.operation.path.split("/")
    for at, segment in enumerate(segments):
        if segment.startswith("{"):
            case.path_parameters[segment.strip("{}")] = world.keys[segments[at - 1]]
    case.query.pop("wait", None)  # nobody else is here to decide; a long wait would only pass the time
    _, secret = ApiToken.objects.all().issue(user=owner, service="", name="fuzz", scopes=list(SCOPES))
    response = case.call(headers={"Authorization": f"Bearer {secret}"})
    assert response.status_code < 500, response.text
    case.validate_response(response, checks=CHECKS)
