"""The stochastic figures as data: bandits, and policies with their styles.

The paper gives nine arms with means .9, .8, ..., .1; the delay of each figure; figures that vary
alpha at one growth, and figures that vary the growth at alpha = 4; and the rival of each figure,
which knows the true facts about the delay. The report lists what the paper does not say and we
chose.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aftereffect.bandits import StochasticBandit
from aftereffect.delays import (
    Geometric,
    Interval,
    LagLaw,
    LinearDecay,
    LinearRise,
    PowerLaw,
    UniformDelay,
)
from aftereffect.growth import Exponential, Power
from aftereffect.policies import ArsUcb, GeneralizedOdaaf, Odaaf, Policy, Ucb1
from aftereffect.reproduction._settings import Settings
from aftereffect.simulation import CurveStyle

MEANS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)

Policies = tuple[Policy, ...]
#: The variant that the paper recommends, and that its claims are about.
RECOMMENDED = ArsUcb(4, Power(2))
ALPHAS: tuple[ArsUcb, ...] = tuple(ArsUcb(alpha, Power(2)) for alpha in (1, 2, 4, 8))
GROWTHS: tuple[ArsUcb, ...] = tuple(
    ArsUcb(4, growth) for growth in (Power(1), Power(2), Power(3), Exponential())
)
ODAAF: Policies = (Odaaf("mean"), Odaaf("bounded"), Odaaf("variance"))
GENERALIZED: Policies = (GeneralizedOdaaf(),)
NO_RIVAL: Policies = ()

LONG, DASH_DOT_DOT, DASH_DASH_DOT = (0, (9, 3)), (0, (5, 1, 1, 1, 1, 1)), (0, (6, 1, 6, 1, 1, 1))
#: The same style in every figure; dashes differ too, for grey print.
STYLES: Mapping[Policy, CurveStyle] = {
    ArsUcb(4, Power(2)): CurveStyle("ARS-UCB, alpha 4, rounds k²", "#0072B2", "-"),
    ArsUcb(1, Power(2)): CurveStyle("ARS-UCB, alpha 1, rounds k²", "#56B4E9", "--"),
    ArsUcb(2, Power(2)): CurveStyle("ARS-UCB, alpha 2, rounds k²", "#009E73", "-."),
    ArsUcb(8, Power(2)): CurveStyle("ARS-UCB, alpha 8, rounds k²", "#332288", ":"),
    ArsUcb(4, Power(1)): CurveStyle("ARS-UCB, alpha 4, rounds k", "#44AA99", "--"),
    ArsUcb(4, Power(3)): CurveStyle("ARS-UCB, alpha 4, rounds k³", "#882255", "-."),
    ArsUcb(4, Exponential()): CurveStyle("ARS-UCB, alpha 4, rounds 2ᵏ", "#999933", ":"),
    Odaaf("mean"): CurveStyle("ODAAF, knows the mean lag", "#D55E00", LONG),
    Odaaf("bounded"): CurveStyle("ODAAF, knows mean lag and reach", "#E69F00", DASH_DOT_DOT),
    Odaaf("variance"): CurveStyle("ODAAF, knows mean lag and variance", "#CC79A7", DASH_DASH_DOT),
    GeneralizedOdaaf(): CurveStyle("generalised ODAAF, knows the reach", "#661100", LONG),
    Ucb1(): CurveStyle("UCB1, naive", "#000000", (0, (1, 4))),
}


@dataclass(frozen=True)
class StochasticFigure:
    """A setting, the variants of ARS-UCB compared in it, and the paper's rivals for it."""

    number: int
    setting: str
    bandit: StochasticBandit
    variants: Policies
    rivals: Policies

    @property
    def key(self) -> str:
        """What ``--figure`` takes."""
        return str(self.number)

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return f"figure-{self.number}"

    @property
    def varies_alpha(self) -> bool:
        """Whether the variants differ in alpha; else they differ in how rounds grow."""
        return self.variants is ALPHAS

    @property
    def caption(self) -> str:
        """What it shows, in one line."""
        return f"{self.setting}, varying {'alpha' if self.varies_alpha else 'the growth of rounds'}"

    @property
    def title(self) -> str:
        """The title of the picture, and the heading in the report."""
        return f"Figure {self.number}: {self.caption}"

    @property
    def policies(self) -> Policies:
        """All policies of the picture; the paper does not show UCB1, which plays in every one."""
        return (*self.variants, *self.rivals, Ucb1())


def _figure(
    number: int, setting: str, delay: LagLaw, variants: Policies, rivals: Policies
) -> StochasticFigure:
    return StochasticFigure(number, setting, StochasticBandit(MEANS, delay), variants, rivals)


FIGURES: Mapping[str, StochasticFigure] = {
    figure.key: figure
    for figure in (
        _figure(2, "delay uniform on 10 .. 30", UniformDelay(10, 30), ALPHAS, ODAAF),
        _figure(3, "delay uniform on 10 .. 30", UniformDelay(10, 30), GROWTHS, ODAAF),
        _figure(4, "delay uniform on 0 .. 60", UniformDelay(0, 60), ALPHAS, ODAAF),
        _figure(5, "delay uniform on 0 .. 60", UniformDelay(0, 60), GROWTHS, ODAAF),
        _figure(10, "spread evenly over the lags 30 .. 39", Interval(30, 39), ALPHAS, GENERALIZED),
        _figure(11, "spread evenly over the lags 10 .. 19", Interval(10, 19), GROWTHS, GENERALIZED),
        _figure(12, "falling linearly over 100 lags", LinearDecay(100), ALPHAS, GENERALIZED),
        _figure(13, "falling linearly over 50 lags", LinearDecay(50), GROWTHS, GENERALIZED),
        _figure(14, "geometric, gamma = 0.8", Geometric(0.8), ALPHAS, NO_RIVAL),
        _figure(15, "geometric, gamma = 0.9", Geometric(0.9), GROWTHS, NO_RIVAL),
        _figure(16, "power law, gamma = 3", PowerLaw(3), ALPHAS, NO_RIVAL),
        _figure(17, "power law, gamma = 2", PowerLaw(2), GROWTHS, NO_RIVAL),
        _figure(18, "rising linearly over 100 lags", LinearRise(100), ALPHAS, GENERALIZED),
        _figure(19, "rising linearly over 50 lags", LinearRise(50), GROWTHS, GENERALIZED),
    )
}


def list_choices(settings: Settings) -> list[tuple[str, str]]:
    """What the paper does not say about this chapter, and what we chose."""
    return [
        ("horizon", f"{settings.horizon:,} slots; {settings.long_horizon:,} for the first claim"),
        ("replications", f"{settings.replications:,} of each policy, with seed {settings.seed}"),
        (
            "values of alpha",
            f"{_join(f'{policy.alpha:g}' for policy in ALPHAS)}, with rounds of k² slots",
        ),
        ("growths of rounds", f"{_join(policy.growth for policy in GROWTHS)}, with alpha 4"),
        (
            "law of the rewards",
            "Bernoulli: the whole reward of a pull is 1 with the arm's mean as its probability, "
            "otherwise 0",
        ),
        (
            "composite rewards",
            "every reward is cut into the same shares; infinitely many shares are not truncated",
        ),
        (
            "variant of ODAAF",
            "all three, where the paper names ODAAF; each knows the true mean, largest value or "
            "variance of the lag",
        ),
        (
            "regret",
            "pseudo-regret of generated reward, whether or not it arrives before the horizon",
        ),
        (
            "order of the arms",
            f"as the paper lists their means, {MEANS[0]:g} first; and again with {MEANS[-1]:g} "
            "first",
        ),
        ("deviation", "the standard deviation of the regret at the horizon, over replications"),
        ("a policy that ignores delay", "UCB1, naive, in every figure"),
    ]


def _join(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
