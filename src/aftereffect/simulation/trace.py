"""The full record of one replication, slot by slot."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aftereffect.environments import ARM, GENERATED, OBSERVED, Environment
from aftereffect.errors import ParameterError
from aftereffect.extras import imported
from aftereffect.kernels import Slots, Vector
from aftereffect.policies import Policy
from aftereffect.simulation.memory import check_memory
from aftereffect.simulation.replications import Task, play, ready

if TYPE_CHECKING:
    import polars

LONGEST = 100_000_000
#: Held in memory of every slot while a trace is made.
_BYTES = 40


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Slot by slot: the arm played, the total observed, and the reward that the pull generated, whenever it lands."""

    arm: Slots
    observed: Vector
    generated: Vector

    def __repr__(self) -> str:
        return f"<Trace of {len(self):,} slots>"

    def __len__(self) -> int:
        return len(self.arm)

    def to_polars(self) -> "polars.DataFrame":
        """One row per slot: slot, arm, observed, generated. Needs the extra ``data``."""
        columns = {"slot": np.arange(len(self)), "arm": self.arm, "observed": self.observed, "generated": self.generated}
        frame: polars.DataFrame = imported("polars").DataFrame(columns)
        return frame


def traced(policy: Policy, environment: Environment, horizon: int, seed: int, replication: int) -> Trace:
    """Play one replication on the slotwise engine and keep every slot."""
    if horizon > LONGEST:
        raise ParameterError(f"a trace holds every slot: at most {LONGEST:,} of them, got a horizon of {horizon:,}")
    check_memory(_BYTES * horizon, "slots")
    task = Task(policy, environment, "slotwise", horizon, (horizon,), seed, range(replication, replication + 1))
    memory = play(task, ready(task, engine=environment.tracer(horizon))).memory
    return Trace(memory[ARM, :horizon].astype(np.int64), memory[OBSERVED, :horizon].copy(), memory[GENERATED, :horizon].copy())
