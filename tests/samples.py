"""What the tests run over: at least one of everything registered (`test_public.py` makes sure)."""

import aftereffect as ae

SPREADS: tuple[ae.Spread, ...] = (
    ae.Immediate(),
    ae.UniformDelay(0, 6),
    ae.UniformDelay(10, 30),
    ae.RandomDelay([0.2, 0, 0.5, 0, 0, 0, 0, 0.3]),
    ae.Interval(0, 1),
    ae.Interval(30, 40),
    ae.LinearDecay(20),
    ae.LinearRise(50),
    ae.Geometric(0.6),
    ae.Geometric(0.9),
    ae.Shape([0.1, 0, 0.5, 0.4]),
)
POLICIES: tuple[ae.Policy, ...] = (
    ae.ArsUcb(),
    ae.ArsUcb(alpha=1.5, growth=ae.Power(1)),
    ae.ArsUcb(growth=ae.Power(0.5)),
    ae.ArsUcb(growth=ae.Exponential()),
    ae.Ucb1(),
    ae.RoundRobin(),
)
GROWTHS: tuple[ae.Growth, ...] = (ae.Power(0.5), ae.Power(1), ae.Power(2), ae.Power(3), ae.Exponential())
REWARDS: tuple[ae.Reward, ...] = (ae.Bernoulli(),)
ENVIRONMENTS: tuple[ae.Environment, ...] = tuple(ae.StochasticBandit([0.9, 0.3, 0.5], spread) for spread in SPREADS)
