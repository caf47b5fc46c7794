"""The stochastic figures as data: bandits, policies and their order; and the claims about them.

The paper gives nine arms with means .9, .8, ..., .1; the delay of each figure; figures that vary
alpha at one growth, and figures that vary the growth at alpha = 4; and the rival of each figure,
which knows the true facts about the delay. The report lists what the paper does not say and we
chose.

Rules that look at the numbers alone judge what the paper claims.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Matrix, Vector
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
from aftereffect.reproduction.chapters import (
    DECADES,
    LEVEL,
    Claim,
    Judgement,
    Settings,
    StoredStudy,
    Verdict,
    format_range,
    format_with_interval,
    judge_cases,
    judge_draws,
    resample_means,
)
from aftereffect.simulation import CurveStyle, PolicyRuns, Study

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


MAX_INCREMENT_RATIO, MAX_EXPONENT = 1.3, 0.2
STANDARD_ERRORS = 2
#: The picture of the long runs.
LONG_RUNS = "long-runs"


@dataclass(frozen=True)
class Evidence:
    """What was found in one figure's setting, with the arms in one order.

    Of the study that the figure shows, only the regret at the horizon is held in memory.
    """

    figure: StochasticFigure
    shown: Study
    long: Study

    @property
    def replications(self) -> int:
        """Runs of each policy."""
        return self.shown.replications


def judge_growth(evidence: Sequence[Evidence]) -> Judgement:
    """In each setting's long runs, a decade costs about as much as the one before."""
    cases, rises = [], []
    for each in _distinct_settings(evidence):
        regret = each.long[RECOMMENDED].regret[:, DECADES]
        draws = resample_means(regret)
        ratios, exponents = _increment_ratio(draws), _local_exponent(draws)
        means = regret.mean(axis=0)
        cells = (
            each.figure.setting,
            *(f"{mean:,.0f}" for mean in means),
            format_with_interval(_increment_ratio(means[None])[0], ratios, ".2f"),
            format_with_interval(_local_exponent(means[None])[0], exponents, ".2f"),
        )
        rises.append(float(_increment_ratio(means[None])[0]))
        agrees = (ratios <= MAX_INCREMENT_RATIO) & (exponents <= MAX_EXPONENT)
        cases.append((judge_draws(agrees), cells))
    slots = evidence[0].long.checkpoints[DECADES] if evidence else ()
    columns = (
        "setting",
        *(f"regret at {slot:,}" for slot in slots),
        "increment ratio",
        "local exponent",
    )
    reason = format_range(
        "ten times the slots add {} times the regret that the tenfold before added, where a "
        "logarithm adds as much",
        rises,
        ".2f",
    )
    return judge_cases("settings", columns, cases, reason=reason)


def judge_rivals(evidence: Sequence[Evidence]) -> Judgement:
    """In each setting, every rival has a higher mean regret than the recommended ARS-UCB."""
    cases, ratios = [], []
    for each in _distinct_settings(evidence):
        ours = each.shown[RECOMMENDED]
        for rival in each.figure.rivals:
            theirs = each.shown[rival]
            excess = theirs.final - ours.final
            draws = resample_means(excess[:, None])[:, 0]
            ratios.append(float(theirs.mean[-1] / ours.mean[-1]))
            cells = (
                each.figure.setting,
                STYLES[rival].name,
                _format_mean(ours),
                _format_mean(theirs),
                f"{ratios[-1]:.1f}",
                format_with_interval(excess.mean(), draws, ",.0f"),
            )
            cases.append((judge_draws(draws > 0), cells))
    columns = ("setting", "rival", "ARS-UCB", "the rival", "ratio", "excess of the rival")
    reason = format_range("ODAAF, told what the delay is, loses {} times as much", ratios, ".1f")
    return judge_cases("comparisons", columns, cases, reason=reason)


def judge_variants(evidence: Sequence[Evidence]) -> Judgement:
    """In most figures, the recommended ARS-UCB has the lowest mean and the lowest deviation."""
    rows, best, best_alpha = [], np.zeros(2, dtype=int), 0
    for each in evidence:
        figure = each.figure
        finals = np.column_stack([each.shown[policy].final for policy in figure.variants])
        names = [STYLES[policy].name.removeprefix("ARS-UCB, ") for policy in figure.variants]
        ours = figure.variants.index(RECOMMENDED)
        by_mean, mean_cells = _compare_with_lowest(finals, ours, names, np.mean, _mean_error)
        by_deviation, deviation_cells = _compare_with_lowest(
            finals, ours, names, np.std, _deviation_error
        )
        best += by_mean, by_deviation
        best_alpha += by_mean and figure.varies_alpha
        rows.append((f"figure {figure.number}", figure.setting, *mean_cells, *deviation_cells))
    verdicts: dict[int, Verdict] = {2: "reproduced", 1: "partly", 0: "not reproduced"}
    verdict = verdicts[int((2 * best > len(rows)).sum())] if rows else "not judged"
    columns = (
        *("figure", "setting", "mean", "above the lowest", "best"),
        *("deviation", "above the lowest", "best"),
    )
    varied = sum(each.figure.varies_alpha for each in evidence)
    count = (
        f"of {len(rows)} figures, the mean is best in {best[0]} ({best_alpha} of the {varied} that "
        f"vary alpha), the deviation in {best[1]}"
    )
    why = (
        f"Its mean regret is the lowest, up to chance, in {best[0]} of {len(rows)} figures, its "
        f"deviation in {best[1]}."
    )
    return Judgement(verdict, count, columns, rows, why)


_BY_DRAWS = (
    f"in at least {LEVEL:.1%} of the bootstrap draws (replications drawn again from those played). "
    f"It fails if this is so in at most {1 - LEVEL:.1%} of the draws; otherwise it is open."
)
_EVERYWHERE = "not reproduced if it fails in more than half of them, otherwise partly."
CLAIMS = (
    Claim(
        "The regret of ARS-UCB is logarithmic in T in every setting.",
        "ARS-UCB (alpha 4, rounds of k² slots) plays alone for a long time. The claim holds in a "
        "setting if the regret per e-fold of time over the last decade is at most "
        f"{MAX_INCREMENT_RATIO} times that over the decade before, and if the local exponent over "
        "the last decade (log10 of the ratio of the regrets) is at most "
        f"{MAX_EXPONENT}, {_BY_DRAWS} Reproduced if it holds in every setting, {_EVERYWHERE}",
        judge_growth,
        LONG_RUNS,
    ),
    Claim(
        "ARS-UCB has less regret than ODAAF in every setting that has it as a benchmark.",
        "ARS-UCB (alpha 4, rounds of k² slots) is compared with every rival of a setting; rivals "
        "know the true facts about the delay. The claim holds in a comparison if the rival's mean "
        f"regret at the horizon is higher {_BY_DRAWS} Reproduced if it holds in every comparison, "
        f"{_EVERYWHERE}",
        judge_rivals,
    ),
    Claim(
        "Alpha = 4 with rounds of k² slots is best in most settings, in regret and in its "
        "deviation.",
        "In each figure the variants of ARS-UCB are compared at the horizon. This variant counts "
        "as best if its mean is the lowest, or above the lowest by at most "
        f"{STANDARD_ERRORS} standard errors of the difference. The standard deviation over "
        "replications is compared by the same rule (its error by bootstrap). Reproduced if the "
        "variant is best in more than half of the figures by both, partly if by one of them, "
        "otherwise not reproduced.",
        judge_variants,
    ),
)


def _distinct_settings(evidence: Sequence[Evidence]) -> list[Evidence]:
    """One for each bandit: two figures may share it."""
    first: dict[object, Evidence] = {}
    for each in evidence:
        first.setdefault(each.shown.bandit, each)
    return list(first.values())


def _increment_ratio(means: Matrix) -> Vector:
    """The increment over the last decade, divided by that over the decade before."""
    before, last = means[:, 1] - means[:, 0], means[:, 2] - means[:, 1]
    # After a decade without regret, a decade without regret is no growth, and any regret is
    # infinite growth.
    return np.divide(last, before, out=np.where(last > 0, np.inf, 0.0), where=before > 0)


def _local_exponent(means: Matrix) -> Vector:
    exponent: Vector = np.log10(means[:, 2] / means[:, 1])
    return exponent


def _mean_error(samples: Matrix, one: int, other: int) -> float:
    """The standard error of the difference of two means over runs with the same seeds."""
    return float(np.std(samples[:, one] - samples[:, other], ddof=1) / np.sqrt(len(samples)))


def _deviation_error(samples: Matrix, one: int, other: int) -> float:
    """The standard error of the difference of two deviations, by bootstrap."""
    pair = samples[:, [one, other]]
    means, squares = np.hsplit(resample_means(np.hstack([pair, pair**2])), 2)
    deviations = np.sqrt(np.maximum(squares - means**2, 0))
    return float(np.std(deviations[:, 0] - deviations[:, 1], ddof=1))


def _compare_with_lowest(
    samples: Matrix,
    ours: int,
    names: Sequence[str],
    measure: Callable[..., Vector],
    error_of: Callable[[Matrix, int, int], float],
) -> tuple[bool, tuple[str, str, str]]:
    """Whether one column has the lowest measure, up to chance, and the cells that show it."""
    values = measure(samples, axis=0)
    lowest = int(np.argmin(values))
    above, error = float(values[ours] - values[lowest]), error_of(samples, ours, lowest)
    best = above <= STANDARD_ERRORS * error
    gap = "0" if lowest == ours else f"{above:,.1f} ± {error:,.1f} ({names[lowest]})"
    return best, (f"{values[ours]:,.0f}", gap, "yes" if best else "no")


def _format_mean(runs: PolicyRuns) -> str:
    error = "" if runs.sem is None else f" ± {runs.sem[-1]:,.0f}"
    return f"{runs.mean[-1]:,.0f}{error}"


@dataclass(frozen=True)
class Order:
    """An order of the arms; no claim about a policy should depend on it."""

    name: str
    relabelled: bool

    @property
    def suffix(self) -> str:
        """The end of the names of its studies."""
        return "-relabelled" if self.relabelled else ""

    def bandit(self, figure: StochasticFigure) -> StochasticBandit:
        """A figure's bandit with its arms in this order."""
        given = figure.bandit
        if not self.relabelled:
            return given
        return StochasticBandit(given.means[::-1], given.delay, given.reward_law)

    def policies(self, figure: StochasticFigure) -> Policies:
        """The policies that play: all in the figure's own order, otherwise those with a claim."""
        return (*figure.variants, *figure.rivals) if self.relabelled else figure.policies


PAPER_ORDER = Order("Best arm first, as in the paper", relabelled=False)
ORDERS = (PAPER_ORDER, Order("Relabelled, worst arm first", relabelled=True))
EvidenceByOrder = Mapping[Order, Sequence[Evidence]]


def shown_study(figure: StochasticFigure, order: Order, settings: Settings) -> StoredStudy:
    """The study that a figure shows."""
    return StoredStudy(
        f"{figure.name}{order.suffix}",
        order.policies(figure),
        order.bandit(figure),
        settings.checkpoints,
        settings.replications,
        settings.seed,
        in_picture=not order.relabelled,
    )


def long_study(figure: StochasticFigure, order: Order, settings: Settings) -> StoredStudy:
    """A long study of the recommended policy alone, which shows how its regret grows."""
    return StoredStudy(
        f"{figure.name}-long{order.suffix}",
        (RECOMMENDED,),
        order.bandit(figure),
        settings.long_checkpoints,
        settings.replications,
        settings.seed,
    )


def list_studies(figure: StochasticFigure, settings: Settings) -> list[StoredStudy]:
    """All studies that a figure and the claims about its setting rest on."""
    kinds = (shown_study, long_study)
    return [make(figure, order, settings) for order in ORDERS for make in kinds]
