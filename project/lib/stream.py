"""The stream of hints in Valkey (replaced by the live builder)."""


def publish(topic: str, id: int | str, version: int) -> None:
    return None
