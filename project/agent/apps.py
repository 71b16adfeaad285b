from typing import Any

from django.apps import AppConfig
from django.utils.module_loading import import_string

from triggers import registry
from triggers.errors import Permanent


def run_graph(run: Any, graph: Any, given: Any, name: str, limits: Any) -> Any:
    """Loaded where a graph is run: the library is an optional one. Raises Permanent where it is not installed."""
    try:
        function = import_string("project.graphs.run_graph")
    except ModuleNotFoundError as error:
        raise Permanent(f"graphs need the package langgraph: pip install langgraph ({error})") from None
    return function(run, graph, given, name, limits)


class AgentConfig(AppConfig):
    name = "project.agent"
    label = "agent"

    def ready(self) -> None:
        registry.used_by.append(import_string("project.agent.telling.used_by"))
        registry.costs_of.append(import_string("project.agent.telling.costs_of"))
        registry.lacking.append(import_string("project.agent.telling.lacking"))
        registry.graphs.append(run_graph)
