"""How `fuzz_specs` plays a case: made, created live, asked and told, simulated; and what counts as wrong."""

import random
import traceback
from datetime import date, timedelta
from typing import Any

import numpy as np

import aftereffect as ae
from aftereffect._core import SlotKernels
from aftereffect.bandits import ENGINES
from aftereffect.delays import ArmwiseDelay
from aftereffect.live._slot_state import prepare_decide
from aftereffect.policies import named_arrays
from aftereffect.simulation import Task, interpret_driver, plan_study, prepare, run_batch
from fuzz_cases import COMPILED, COMPILED_REWARDS, COMPILED_SPREADS, Case

#: Totals that are told live, besides those between 0 and 1.
TOTALS = (0.0, 1.0, -1.0, 5.0, 1e-300, 1e6)
#: The same for policies that look at every slot, also in histories and as covariates.
WILD_NUMBERS = (0.0, 1e-300, 1e90, -5.0)
WORLD = ae.StochasticBandit([0.7, 0.4, 0.1], ae.Interval(1, 3))


class WrongError(Exception):
    """What must not be, though no exception says so."""


def examined(case: Case, raising: bool = False) -> str:
    """``accepted``, ``refused``, or what is wrong with it."""
    try:
        thing = case.thing()
        if case.kind == COMPILED:
            ae.simulate("ucb1", thing, case.horizon, 2, seed=case.seed, jobs=1)
        else:
            _play(thing, case)
    except ae.AftereffectError as error:
        return "refused" if "\n" not in str(error) else f"a message of several lines: {error}"
    except Exception as error:
        if raising:
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})".replace(
            "\n", " "
        )
    return "accepted"


def compile_all() -> None:
    """Make the machine code that cases of the kind `COMPILED` run."""
    modest = {
        ae.UniformDelay: (1, 2),
        ae.Interval: (1, 2),
        ae.Geometric: (0.5,),
        ae.PowerLaw: (3,),
        ae.rewards.Beta: (2,),
    }
    for delay in COMPILED_SPREADS:
        for reward in COMPILED_REWARDS:
            world = ae.StochasticBandit(
                [0.9, 0.1], delay(*modest.get(delay, ())), reward(*modest.get(reward, ()))
            )
            ae.simulate("ucb1", world, 10, 1, seed=0, jobs=1)


def compile_decides() -> None:
    """Make the machine code of policies that look at every slot."""
    for policy in (ae.AdaptiveSwitchback(), ae.FixedSwitchback(), ae.OptimalSwitchback(1, 9)):
        prepare_decide(policy.with_calendar(WORLD.calendar))


def _play(thing: object, case: Case) -> None:
    draw = random.Random(case.seed)
    if isinstance(thing, ae.growth.Growth):
        thing = draw.choice((ae.ArsUcb(growth=thing), ae.ArsKlUcb(thing), ae.ArsClw(thing)))
    if isinstance(thing, ae.Policy):
        # First what a simulation knows: a policy that lacks something live is told there.
        simulate(thing.with_delay_facts(WORLD.delay_facts), WORLD, 60, "roundwise")
        longest = 18 if isinstance(thing.kernels(), SlotKernels) else 40  # some remember slots
        plan_study([thing], WORLD, 2 ** draw.randint(6, longest), 1, seed=0)
        live(thing, case, draw)
        return
    if isinstance(thing, ae.rewards.RewardLaw):
        thing = ae.StochasticBandit(
            [draw.random() for _ in range(3)] + [10.0 ** -draw.uniform(0, 300)], reward_law=thing
        )
    if isinstance(thing, ae.rewards.Schedule):
        thing = ae.AdversarialBandit(thing, ae.Interval(1, 3))
    if isinstance(thing, ae.PerArm):
        thing = ae.StochasticBandit([draw.random() for _ in thing.delays], thing)
    elif isinstance(thing, ArmwiseDelay):
        thing = ae.StochasticBandit([0.9, 0.4], thing)
    elif isinstance(thing, ae.Delay):
        thing = ae.AdversarialBandit(ae.rewards.DrawnRewards([0.9, 0.4]), thing)
    if isinstance(thing, ae.Bandit):
        policy = draw.choice(
            ("ucb1", "ars-ucb", "settle-ucb", "clw(d=3)", "odaaf", "clw", "generalized-odaaf")
        )
        simulate(
            ae.parse(policy, ae.Policy).with_delay_facts(thing.delay_facts),
            thing,
            max(thing.arms, 60),
            draw.choice(ENGINES),
        )
        plan_study([policy], thing, max(2 ** draw.randint(6, 40), thing.arms), 1, seed=0)


def simulate(policy: ae.Policy, bandit: ae.Bandit, horizon: int, engine: str) -> None:
    """As `simulate` does, but as it is written: compiling takes seconds for each new combination.

    Policies that look at every slot decide in machine code, which is the same for any bandit: as it
    is written, a filter for each of many delays takes minutes.
    """
    plan = plan_study([policy], bandit, horizon, 1, seed=3, engine=engine)
    task = Task(policy, bandit, plan.engine, horizon, plan.checkpoints, 3, range(1))

    def build(kernels, *given):
        if isinstance(kernels, SlotKernels):
            kernels = kernels._replace(decide=prepare_decide(policy))
        return interpret_driver(kernels, *given)

    prepared = prepare(task, build)
    if engine == "slotwise" and _longest(bandit, horizon) > 2_000:
        return  # compiled it takes milliseconds; as it is written, minutes
    outcome = run_batch(task, prepared).runs
    if outcome.pulls.sum() != horizon or not np.isfinite(outcome.regret).all():
        raise WrongError(
            f"{outcome.pulls.sum()} of {horizon} slots played, regret {outcome.regret}"
        )


def _longest(bandit: ae.Bandit, horizon: int) -> int:
    delay = bandit.delay
    return (
        max(delay.reach_within(horizon) for delay in delay.by_arm(bandit.arms))
        if isinstance(delay, ArmwiseDelay)
        else 0
    )


def live(policy: ae.Policy, case: Case, draw: random.Random) -> None:
    """Created, asked and told; and its kernels for many rounds more. What is refused leaves nothing behind."""
    storage = ae.open_storage("memory://")
    names = [f"arm {number}" for number in range(case.arms)]
    looks_at_slots = isinstance(policy.kernels(), SlotKernels)
    settings = _draw_slot_settings(draw) if looks_at_slots else {"reward_range": (0, 1)}
    try:
        experiment = ae.Experiment.create(
            "fuzz",
            arms=names,
            policy=policy,
            horizon=case.horizon,
            seed=1,
            storage=storage,
            **settings,
        )
    except ae.AftereffectError:
        if list(storage.names()):
            raise WrongError("refused, but recorded") from None
        raise
    try:
        for _ in range(4):
            slot = experiment.ask()
            experiment.tell(slot.slot, draw.random())
        experiment.status()
        if looks_at_slots:
            every_slot(experiment, draw)
    except ae.AftereffectError as error:
        if not isinstance(error, ae.ConflictError):  # the horizon may be over
            raise WrongError(f"created, but then refused: {error}") from None
    if not looks_at_slots:
        rounds(experiment.settings.policy, case.arms, experiment.settings.planned_slots, draw)


def _draw_slot_settings(draw: random.Random) -> dict[str, Any]:
    """A history of up to a few weeks of days, and covariates; or neither."""
    names = draw.choice(((), (), ("rain",), ("rain", "wind")))
    days = [date(2026, 1, 5) + timedelta(day) for day in range(draw.choice((0, 0, 5, 40)))]
    history = [
        (f"{day}T00:00", abs(_draw_number(draw)), {name: _draw_number(draw) for name in names})
        for day in days
    ]
    return (
        {"history": history, "covariates": names, "slot": "1d"} if days else {"covariates": names}
    )


def _draw_number(draw: random.Random) -> float:
    return draw.choice((draw.random(), draw.choice(WILD_NUMBERS)))


def every_slot(experiment: ae.Experiment, draw: random.Random) -> None:
    """Some slots more, with totals of any size, late, missing and revised: all probabilities are valid."""
    for _ in range(25):
        decision = experiment.ask()
        chances = list(decision.probabilities.values())
        if not (min(chances) >= 0 and abs(sum(chances) - 1) < 1e-9):  # NaN is not
            raise WrongError(f"drawn with {chances} at slot {decision.slot}")
        told = draw.randrange(decision.slot + 1)
        names = [name for name in experiment.settings.covariates if draw.random() < 0.8]
        given = {"covariates": {name: _draw_number(draw) for name in names}} if names else {}
        if draw.random() < 0.1:
            experiment.mark_missing(told, revise=True, **given)
        elif draw.random() < 0.9:
            experiment.tell(told, _draw_number(draw), revise=True, confirm=True, **given)
    if not experiment.verify().whole:
        raise WrongError("the log does not verify")


def rounds(policy: ae.Policy, arms: int, horizon: int, draw: random.Random) -> None:
    """Many rounds by the plain kernels, looked at for as long as planned or not: all answers are valid, all state finite."""
    decide, absorb = policy.kernels()
    state, params = policy.initial(arms), policy.params(arms, horizon)
    if not all(
        np.isfinite(array).all() for _, array in (*named_arrays(state), *named_arrays(params))
    ):
        raise WrongError("state or parameters are not finite")
    rng = np.random.Generator(np.random.PCG64(case_seed := draw.randrange(2**32)))
    t = 0
    for _ in range(max(2, min(1_000, 20_000 // arms))):
        arm, slots, window = decide(state, params, t, rng)
        if not (0 <= arm < arms and slots >= 1 and 0 <= window <= slots):
            raise WrongError(f"decided {arm, slots, window} at slot {t} with seed {case_seed}")
        slots = min(slots, horizon - t)
        looked = min(window, slots)
        if window > 0 and draw.random() < 0.3:  # some are missing, or it was held longer
            looked = max(1, int(looked * draw.choice((0.1, 0.5, 2, 10))))
        average = draw.choice((draw.random(), draw.choice(TOTALS)))
        absorb(state, params, arm, looked, average * looked)
        t += slots
        if t >= horizon:
            break
    if not all(np.isfinite(array).all() for _, array in named_arrays(state)):
        raise WrongError("the state is not finite any more")
