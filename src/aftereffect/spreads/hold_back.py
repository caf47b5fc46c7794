"""The paper's non-oblivious adversary: it makes the best arm look bad to those who stay with it."""

from dataclasses import dataclass

from aftereffect.checks import flag, lag
from aftereffect.spec import register
from aftereffect.spreads.base import Delaying


@register
@dataclass(frozen=True)
class HoldBack(Delaying):
    """Adversarial bandits only: the best arm's rewards wait d slots once it was played 3d times in a row, others one slot.

    The best arm is the one that brings most over the whole horizon. The reward of a pull waits d slots if the arm is that one
    and this pull is at least the 3d-th in a row of it, else one slot.

    Parameters
    ----------
    d
        How long a reward is held back; at least 1.
    reset_on_round
        Whether a row of pulls begins anew with every round, though the arm be the same.
    """

    kind = "delay adversary"

    d: int
    reset_on_round: bool = False

    def __post_init__(self) -> None:
        self._set(d=lag("d", self.d, at_least=1), reset_on_round=flag("reset_on_round", self.reset_on_round))

    @property
    def first_held(self) -> int:
        """How many pulls in a row come before the first that is held back."""
        return 3 * self.d - 1
