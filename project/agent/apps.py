from django.apps import AppConfig


class AgentConfig(AppConfig):
    name = "project.agent"
    label = "agent"
