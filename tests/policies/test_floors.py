"""Floors: every arm keeps its share of the rounds in each group, by a known law, whatever the base decides."""

import math
from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core import Calendar, SlotKernels
from aftereffect.policies.floors import plan_group
from aftereffect.simulation import call_decide

BASES = [
    "ars-ucb",
    "ars-kl-ucb",
    "settle-ucb(hold=10)",
    "ucb1",
    "round-robin",
    "exp3",
    "exp3(form=loss)",
    "ars-exp3(doubling=true)",
    "clw(d=2)",
    "ars-clw(first_phase=50)",
    "mini-batch(size=2)",
    "odaaf(mean_lag=2)",
    "fixed-switchback(block=2)",
    "optimal-switchback(carryover=2)",
]
SHARES = (0.1, 0, 0.2)
BANDIT = ae.StochasticBandit([0.5, 0.8, 0.3], ae.Interval(0, 3))


class Player:
    """A policy played round by round through its plain kernels, on totals of about 1/2 per slot."""

    def __init__(self, policy, seed=1, horizon=10**5):
        self.kernels, arms = policy.kernels(), len(policy.shares)
        self.state, self.params = policy.initial(arms), policy.params(arms, horizon)
        self.rng, self.world = np.random.default_rng(seed), np.random.default_rng(seed + 1)
        self.t = 0

    def play(self, rounds):
        """The arm, the probabilities and whether it was a floor round, for each round."""
        played = []
        for _ in range(rounds):
            arm, slots, *window = self.kernels.decide(self.state, self.params, self.t, self.rng)
            is_floor = bool(self.state.is_floor[0])
            played.append((arm, self.state.probabilities.copy(), is_floor))
            if window:
                total = 0.5 * window[0] + self.world.random()
                self.kernels.absorb(self.state, self.params, arm, window[0], total)
            else:
                for slot in range(self.t, min(self.t + slots, self.t + 500)):
                    total = self.world.random()
                    self.kernels.observe(self.state, self.params, slot, arm, total, np.zeros(0))
            self.t += slots
        return played


@pytest.mark.parametrize(
    ("shares", "rounds", "counts"),
    [
        ((0.1, 0.0), 10, (1, 0)),
        ((0.1, 0.0, 0.05), 20, (2, 0, 1)),
        ((0.0, 0.0), 1, (0, 0)),
        ((1 / 3, 1 / 3), 3, (1, 1)),
        ((0.3, 0.3, 0.3), 10, (3, 3, 3)),
        ((0.07, 0.0), 26, (2, 0)),
        ((0.001, 0.5), 1_000, (1, 500)),
        ((0.9, 0.0), 10, (9, 0)),
        ((0.1, 0.25), 19, (2, 5)),
    ],
)
def test_groups(shares, rounds, counts):
    assert plan_group(shares) == (rounds, counts)


@pytest.mark.parametrize("seed", range(40))
def test_an_arm_has_its_share_or_a_tenth_more_and_something_is_left(seed):
    draw = np.random.default_rng(seed)
    shares = draw.random(draw.integers(2, 9)) * (draw.random() < 0.8) + 0.002
    shares *= draw.uniform(0.01, 0.9) / shares.sum()
    shares[shares < 0.001] = 0.0
    rounds, counts = plan_group(tuple(shares.tolist()))
    share = np.array(counts) / rounds
    assert (share >= shares - 1e-9).all()
    assert (share <= 1.1 * shares + 1e-9).all()
    assert share.sum() < 1
    smallest = shares[shares > 0].min() if shares.any() else 1
    assert 1 / smallest - 1e-6 <= rounds <= 10 / smallest + 1


@pytest.mark.parametrize("base", BASES)
def test_every_group_has_its_floor_rounds(base):
    rounds, counts = plan_group(SHARES)
    assert (rounds, counts) == (10, (1, 0, 2))
    played = Player(ae.Floors(base, SHARES)).play(12 * rounds)
    for first in range(0, len(played), rounds):
        floors = Counter(arm for arm, _, is_floor in played[first : first + rounds] if is_floor)
        assert floors == {0: 1, 2: 2}
    for arm, probabilities, _ in played:
        assert probabilities.sum() == pytest.approx(1)
        assert probabilities.min() >= 0
        assert probabilities[arm] > 0


def test_all_orders_of_a_group_are_equally_likely():
    """The closed form: with shares of 1/4 and 1/2 a group has one floor round of arm 0, two of arm 1."""
    policy = ae.Floors("round-robin", [0.25, 0.5, 0])
    assert plan_group(policy.shares) == (4, (1, 2, 0))
    orders = Counter()
    player, groups = Player(policy), 24_000
    for _ in range(groups):
        orders["".join(str(a) if is_floor else "-" for a, _, is_floor in player.play(4))] += 1
    expected = {"".join(order) for order in permutations("011-")}
    assert set(orders) == expected
    assert len(expected) == 12
    each = groups / 12
    assert max(abs(count - each) for count in orders.values()) < 4.5 * math.sqrt(each)


def test_the_probabilities_of_a_group_are_those_of_its_orders():
    """By exact enumeration of all orders, given the first rounds of a group."""
    policy = ae.Floors("round-robin", [0.25, 0.5, 0])
    orders = set(permutations("011-"))
    player, seen = Player(policy, seed=3), set()
    for _ in range(400):
        turn, before = int(player.state.base.arm[0]), ""
        for place in range(4):
            turn = int(player.state.base.arm[0])
            ((arm, probabilities, is_floor),) = player.play(1)
            alike = [order for order in orders if "".join(order).startswith(before)]
            for each in range(3):
                here = sum(order[place] == str(each) for order in alike)
                own = sum(order[place] == "-" for order in alike) if each == turn else 0
                assert probabilities[each] == pytest.approx(float(Fraction(here + own, len(alike))))
            before += str(arm) if is_floor else "-"
        seen.add(before)
    assert len(seen) == 12


@pytest.mark.parametrize(
    "base", ["exp3", "exp3(form=loss)", "clw(d=2)", "ars-clw", "fixed-switchback"]
)
def test_recorded_probabilities_are_the_frequencies(base):
    """Sums of (arm played - its probability) are martingales, also of bases that draw their arms."""
    rounds = 4_000
    if base == "fixed-switchback":
        base = ae.FixedSwitchback(block=2, blocks_per_arm=rounds)
    played = Player(ae.Floors(base, SHARES), seed=5).play(rounds)
    arms = np.eye(3)[[arm for arm, _, _ in played]]
    law = np.array([probabilities for _, probabilities, _ in played])
    off = (arms - law).sum(axis=0)
    assert (np.abs(off) < 4 * np.sqrt((law * (1 - law)).sum(axis=0))).all()
    late = law[:, 1] > 0.5  # the same where the law says something else
    off = (arms - law)[late, 1].sum()
    assert abs(off) <= 4 * np.sqrt((law * (1 - law))[late, 1].sum()) + 1e-9
    own = [probabilities for _, probabilities, is_floor in played if not is_floor]
    assert np.mean([0 < probabilities.max() < 1 for probabilities in own]) > 0.8


@pytest.mark.parametrize("base", BASES)
def test_without_floors_it_is_the_base(base):
    alone = ae.parse(base, ae.Policy)
    wrapped = Player(ae.Floors(base, [0, 0, 0]), seed=7)
    kernels, state, params = alone.kernels(), alone.initial(3), alone.params(3, 10**5)
    rng, t = np.random.default_rng(7), 0
    for _ in range(60):
        wanted = kernels.decide(state, params, t, rng)
        assert wrapped.kernels.decide(wrapped.state, wrapped.params, t, wrapped.rng) == wanted
        arm, slots, *window = wanted
        for each, policy_state, of in (
            (kernels, state, params),
            (wrapped.kernels, wrapped.state, wrapped.params),
        ):
            if isinstance(each, SlotKernels):
                for slot in range(t, t + min(slots, 500)):
                    each.observe(policy_state, of, slot, arm, 0.1 * (slot % 7), np.zeros(0))
            else:
                each.absorb(policy_state, of, arm, window[0], 0.4 * window[0])
        t += slots
    assert wrapped.rng.bit_generator.state == rng.bit_generator.state


@pytest.mark.parametrize(
    ("base", "learns"),
    [
        *((base, True) for base in ("ars-ucb", "ars-kl-ucb", "ucb1", "odaaf", "mini-batch(base=ucb1)")),
        *((base, False) for base in ("exp3", "clw", "ars-exp3", "ars-clw", "mini-batch")),
        *((base, False) for base in ("settle-ucb", "round-robin")),
    ],
)  # fmt: skip
def test_who_learns_from_floor_rounds(base, learns):
    assert ae.Floors(base, [0.1, 0]).learns_from_any_arm is learns


def test_a_floor_round_teaches_only_policies_that_it_does_not_mislead():
    for base in ("ucb1", "exp3"):
        player = Player(ae.Floors(base, [0.9, 0]))
        for _ in range(40):
            before = [array.copy() for array in player.state.base]
            ((arm, _, is_floor),) = player.play(1)
            changed = any((b != a).any() for b, a in zip(before, player.state.base, strict=True))
            assert changed == (base == "ucb1" or not is_floor)
            assert not is_floor or arm == 0


@pytest.mark.compiled
@pytest.mark.parametrize("base", ["exp3", "settle-ucb", "ars-ucb"])
def test_a_floor_costs_its_share(base):
    """A floor for the worst arm costs about its share, and no base is led astray by it."""
    bandit = ae.StochasticBandit([0.8, 0.4], ae.Interval(0, 9))
    horizon = 40_000
    floors = ae.Floors(base, [0, 0.1])
    alone, held = (runs.final for runs in ae.simulate([base, floors], bandit, horizon, 60, seed=2))
    error = math.hypot(alone.std(), held.std()) / math.sqrt(60)
    assert held.mean() < alone.mean() + 1.1 * 0.1 * 0.4 * horizon + 4 * error
    assert held.mean() > 0.09 * 0.4 * horizon


@pytest.mark.compiled
def test_a_control_of_a_tenth_loses_at_most_its_share_plus_a_tenth():
    """Eight weeks of hours; the control brings a fifth less than the other arm, or two others."""
    for lifts in ([0, 0.2], [0, 0.1, 0.2]):
        bandit = ae.SeasonalBandit(
            lifts, ae.Interval(0, 5), season="ar+weekday", weeks_before=4, shuffle=False
        )
        base = ae.AdaptiveSwitchback(delay=ae.Interval(0, 5))
        held = ae.Floors(base, [0.1] + [0] * (len(lifts) - 1))
        alone, held = (
            runs.final for runs in ae.simulate([base, held], bandit, 8 * 168, 400, seed=3)
        )
        gap = 100 * 0.2 / 1.2  # what is lost, in percent, if only the control is played
        more, error = (held - alone).mean(), (held - alone).std() / math.sqrt(400)
        assert more + 4 * error <= 1.1 * 0.1 * gap
        assert more > 0.5 * 0.1 * gap


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ae.Floors("ars-ucb", 0.1), "shares must be a list, got 0.1"),
        (lambda: ae.Floors("ars-ucb", [0.1]), "at least two, one per arm, got 1"),
        (lambda: ae.Floors("ars-ucb", [0.1, -0.1]), "the share of arm 1 must be a number from 0"),
        (lambda: ae.Floors("ars-ucb", [0.1, math.nan]), "the share of arm 1 must be a number"),
        (lambda: ae.Floors("ars-ucb", [0.5, 0.5]), "must sum to at most 0.9, got 1: the policy"),
        (lambda: ae.Floors("ars-ucb", [0.1, 1e-9]), "at least 0.001, got 1e-09"),
        (lambda: ae.Floors("floors(ucb1, [0.1, 0])", [0, 0.1]), "the policy has floors already"),
        (lambda: ae.Floors("ars-ucb", [0.1, 0]).initial(3), "the shares of 2 arms, but there are 3"),
        (lambda: ae.simulate("floors(ucb1, [0.1, 0])", BANDIT, 99), "shares of 2 arms, but there are 3"),
        (lambda: ae.Floors("no-policy", [0.1, 0]), "unknown policy 'no-policy'"),
        (lambda: ae.Floors("clw", [0.1, 0]).params(2, 9), "clw needs d, the largest lag"),
    ],
)  # fmt: skip
def test_refusals(make, message):
    with pytest.raises((ae.ParameterError, ae.SpecError)) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_the_base_needs_to_know_is_passed_on():
    policy = ae.parse("floors(clw, [0.1, 0, 0.05])", ae.Policy)
    assert policy.needs_horizon
    facts = BANDIT.delay_facts
    assert policy.with_delay_facts(facts).base == ae.Clw().with_delay_facts(facts)
    calendar = ae.Floors("fixed-switchback", [0.1, 0]).with_calendar(Calendar(24, 5))
    assert (calendar.base.slots_per_day, calendar.base.first) == (24, 5)
    policy = ae.Floors("ars-ucb", SHARES)
    assert not policy.needs_horizon
    assert str(policy) == "floors(ars-ucb(alpha=4, growth=power(2)), [0.1, 0, 0.2])"


def test_probabilities_of_policies_that_learn_from_rounds_are_checked(monkeypatch):
    policy = ae.Floors("ucb1", SHARES)
    check_decision(policy)
    monkeypatch.setattr(policy.base.__class__, "chance", lambda _: lambda state, params, arm: 0.5)
    with pytest.raises(ae.ParameterError, match="must sum to 1, got"):
        check_decision(policy)


def check_decision(policy):
    rng = np.random.default_rng(1)
    call_decide(policy, policy.initial(3), policy.params(3, 99), 3, 0, rng)


@pytest.mark.compiled
@pytest.mark.parametrize("engine", ["roundwise", "slotwise"])
def test_both_engines_play_it(engine):
    specs = ["floors(ars-ucb, [0.1, 0, 0.25])", "floors(fixed-switchback(block=4), [0.1, 0, 0.25])"]
    for spec, bandit in zip(
        specs, (BANDIT, ae.SeasonalBandit([0, 0.1, 0.2], weeks_before=2)), strict=True
    ):
        study = ae.simulate(spec, bandit, 2_000, 10, seed=1, engine=engine)
        assert (study[0].pulls.sum(axis=1) == 2_000).all()
        assert study[0].pulls[:, 2].mean() > 0.2 * 2_000
