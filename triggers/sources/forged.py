"""The one refusal of everything that does not prove its sender."""


class Forged(Exception):
    """The delivery does not prove who sent it. `reason` is for the desk's own pages, never for the sender."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        super().__init__(detail)
