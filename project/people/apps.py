from django.apps import AppConfig


class PeopleConfig(AppConfig):
    name = "project.people"
    label = "people"
