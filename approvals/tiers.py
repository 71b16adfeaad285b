"""How much harm an action can do, and so who must nod first."""

from django.db import models


class Tier(models.TextChoices):
    """Ordered by risk: `read` looks, `low` runs and is reported, `medium` and `high` wait for people."""

    READ = "read"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        return list(Tier).index(self)

    @property
    def waits(self) -> bool:
        """Whether a person must say yes before it happens."""
        return self in (Tier.MEDIUM, Tier.HIGH)


WAITING = tuple(tier for tier in Tier if tier.waits)  # for which a person must say yes


def stricter(*tiers: str) -> Tier:
    """The riskiest of several tiers."""
    return max((Tier(tier) for tier in tiers), key=lambda tier: tier.rank)
