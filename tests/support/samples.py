"""What the tests run over: at least one of everything registered (`test_public.py` makes sure)."""

from pathlib import Path

import aftereffect as ae

LAG_LAWS: tuple[ae.delays.LagLaw, ...] = (
    ae.Immediate(),
    ae.UniformDelay(0, 6),
    ae.UniformDelay(10, 30),
    ae.RandomDelay([0.2, 0, 0.5, 0, 0, 0, 0, 0.3]),
    ae.Interval(0, 0),
    ae.Interval(30, 39),
    ae.LinearDecay(20),
    ae.LinearRise(50),
    ae.Geometric(0.6),
    ae.Geometric(0.9),
    ae.PowerLaw(2),
    ae.PowerLaw(3),
    ae.Shape([0.1, 0, 0.5, 0.4]),
)
CLW = (
    (3, "colt", "exp3"),
    (4, "jmlr", "tsallis"),
    (2, "seed", "exp3-gain"),
)
POLICIES: tuple[ae.Policy, ...] = (
    ae.ArsUcb(),
    ae.ArsUcb(alpha=1.5, growth=ae.growth.Power(1)),
    ae.ArsUcb(growth=ae.growth.Power(0.5)),
    ae.ArsUcb(growth=ae.growth.Exponential()),
    ae.ArsKlUcb(),
    ae.SettleUcb(),
    ae.SettleUcb(burn_in=1.5, look=0.5, wait=0.7, hold=12),
    ae.Odaaf(),
    ae.Odaaf("bounded", mean_lag=3, reach=9),
    ae.Odaaf("variance"),
    ae.GeneralizedOdaaf(5),
    ae.Ucb1(),
    ae.RoundRobin(),
    ae.Exp3(),
    ae.Exp3("loss"),
    ae.ArsExp3(),
    ae.ArsExp3(beta=1.5, doubling=True),
    *(ae.Clw(d, variant, base) for d, variant, base in CLW),
    ae.ArsClw(),
    ae.ArsClw(ae.growth.Power(0.5), first_phase=50),
    ae.MiniBatch(),
    ae.MiniBatch("ars-ucb", size=3),
    ae.DynLinUcb(radius=0.8, size=1, leak=0.5, noise=0.5),
    ae.DynLinUcb(radius=0, size=0.5, leak=0, noise=0.3, reward_range=[-1, 2], regularizer=2),
    ae.Floors("ars-ucb", [0.1, 0, 0.05]),
    ae.Floors("exp3(form=loss)", [0, 0.2, 0.07]),
    ae.Floors("mini-batch(size=3)", [0.3, 0.3, 0.3]),
)
#: Policies that look at every slot; live experiments do not play them.
SLOT_POLICIES: tuple[ae.Policy, ...] = (
    ae.FixedSwitchback(),
    ae.FixedSwitchback(block=5, blocks_per_arm=3, slots_per_day=1, first=2),
    ae.OptimalSwitchback(carryover=3, blocks=12),
    ae.AdaptiveSwitchback(),
    ae.AdaptiveSwitchback(delay=ae.Interval(0, 2)),
    ae.Floors("fixed-switchback(5)", [0.2, 0, 0]),
    ae.Floors(ae.AdaptiveSwitchback(delay=ae.Interval(0, 2)), [0.1, 0, 0.05]),
)
#: Oracles, which no live experiment plays either.
ATTRIBUTED_POLICIES: tuple[ae.AttributedPolicy, ...] = (
    ae.DelayedUcb1(),
    ae.AttributedKlUcb(),
    ae.AttributedKlUcb("first"),
    ae.DelayedUcb(),
    ae.QpmD(),
    ae.Bold(),
    ae.Dexp3(),
    ae.Dew(),
    ae.Skipper(mean_wait=4),
    ae.LiDexp3(),
    ae.DelayedLeader(),
    ae.DelayedLeader("advanced"),
    ae.DelayedLeader("both"),
    ae.PatientBandits(),
    ae.AdaptivePatientBandits(0.5, 0.5),
    ae.Bold(ae.Exp3("loss"), copies=4),
    ae.DelayedKlUcb(ae.UniformDelay(0, 2), window=1, epsilon=0.5),
)
#: Policies that play several units at once, which simulations do not.
UNIT_POLICIES: tuple[ae.UnitPolicy, ...] = (
    ae.FixedUnitSwitchback(),
    ae.FixedUnitSwitchback(block=5, blocks_per_arm=3, slots_per_day=1, first=2),
    ae.UnitSwitchback(),
    ae.UnitSwitchback(slots_per_day=24, delay=ae.Interval(0, 2), least_share=0.1),
)


def fit_arms(policy: ae.Policy, arms: int) -> ae.Policy:
    """The policy, for so many arms."""
    if not isinstance(policy, ae.Floors):
        return policy
    return ae.Floors(policy.base, (*policy.shares, *[0.0] * arms)[:arms])


GROWTHS: tuple[ae.growth.Growth, ...] = (
    ae.growth.Power(0.5),
    ae.growth.Power(1),
    ae.growth.Power(2),
    ae.growth.Power(3),
    ae.growth.Exponential(),
)
PER_ARM = (
    ae.PerArm([ae.Interval(3, 8), ae.Interval(20, 39), ae.Interval(3, 8)]),
    ae.PerArm([ae.UniformDelay(0, 25), ae.Geometric(0.8), ae.PowerLaw(2.5)]),
)
REWARDS: tuple[ae.rewards.RewardLaw, ...] = (
    ae.rewards.Bernoulli(),
    ae.rewards.Constant(),
    ae.rewards.Beta(2),
    ae.rewards.Uniform(),
)
MEANS = (0.9, 0.3, 0.5)
BANDITS: tuple[ae.StochasticBandit, ...] = (
    *(ae.StochasticBandit(MEANS, delay) for delay in (*LAG_LAWS, *PER_ARM)),
    *(ae.StochasticBandit(MEANS, ae.Interval(3, 8), reward) for reward in REWARDS[1:]),
    ae.StochasticBandit((1, 0, 0.5), ae.UniformDelay(0, 6), ae.rewards.Beta(0.5)),
)
SCHEDULES: tuple[ae.rewards.Schedule, ...] = (
    ae.rewards.DrawnArm([0.5, 0.3, 0.2], seed=1),
    ae.rewards.DrawnRewards([0.9, 0.3, 0.5]),
    ae.rewards.MultiScaleWalk(200_000, arms=3),
)
DELAYS: tuple[ae.Delay, ...] = (
    *LAG_LAWS,
    *PER_ARM,
    ae.HoldBack(4),
    ae.HoldBack(2, reset_on_round=True),
)
ADVERSARIAL: tuple[ae.AdversarialBandit, ...] = (
    *(ae.AdversarialBandit(schedule, delay) for schedule in SCHEDULES[:2] for delay in DELAYS[-2:]),
    *(
        ae.AdversarialBandit(SCHEDULES[0], delay)
        for delay in (ae.UniformDelay(0, 6), ae.Geometric(0.6), PER_ARM[1])
    ),
    *(ae.AdversarialBandit(SCHEDULES[1], delay) for delay in (ae.Interval(3, 8), ae.PowerLaw(3))),
    ae.AdversarialBandit(SCHEDULES[2], ae.UniformDelay(0, 6)),
)
#: 30 weeks of days from a Wednesday on, with three holes.
HISTORY = str(Path(__file__).parent / "history.csv")
DEFECTS: tuple[ae.Defects, ...] = (
    ae.Defects(),
    ae.Defects(missing=0.05, zeros=0.05, spikes=0.05, late=3, holiday=1, drop=0.7),
)
GUARDRAILS: tuple[ae.Guardrail, ...] = (
    ae.Guardrail("complaints"),
    ae.Guardrail("support calls", harm="less", tolerated=2.5, stops=True),
)
DEMAND: tuple[ae.Bandit, ...] = (
    ae.HistoryBandit(HISTORY, [0, 0.1, 0.2], ae.Interval(0, 6), "1d", weeks_before=4),
    ae.HistoryBandit(HISTORY, [0, -0.1, 0.2], ae.Geometric(0.6), "1d", 52, 2, shuffle=False),
    ae.SeasonalBandit([0, 0.1], ae.Interval(2, 5), season="ar+weekday", weeks_before=1),
    ae.SeasonalBandit([0, 0.1], slot="15min", season="weekday", tails="poisson", weeks_before=1),
    ae.SeasonalBandit([0, 0.1, 0.3], slot="1w", season="trend", tails="heavy", feed=DEFECTS[1]),
)
LINEAR: tuple[ae.Bandit, ...] = (
    ae.LinearBandit([[0.5]], [[1, 2]], [-0.3], [0.5, 0.9], [[1, 0], [0, 1], [0.5, 0.5]]),
    ae.LinearBandit(
        [[0.38, 0.33, 0.6], [0.07, 0.76, -0.54], [0.18, 0.34, 0.05]],
        [[0.14, 0.34, -0.05], [-0.17, 0.03, -0.01], [0.04, -0.09, 0.17]],
        [-0.61, -0.04, -0.13],
        [0.13, 0.41, 0.02],
        [[1, 0, 0.5], [1, 0.5, 0], [0.5, 0, 1]],
        sigma=0.1,
        output_sigma=0,
    ),
    ae.LinearBandit(
        [[0, 1], [0, 0]], [[1], [0.5]], [1, -2], [1], [[0.2], [0.6], [-1]], 0.2, 0.5, [-4, 4]
    ),
)
