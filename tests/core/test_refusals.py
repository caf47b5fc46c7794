"""Bad parameters are refused with one clear line, in Python as on the command line."""

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core.spec import register

ENV = ae.StochasticBandit([0.9, 0.1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ae.StochasticBandit([0.5]), "means must be at least two numbers, one per arm, got 1"),
        (lambda: ae.StochasticBandit([]), "means must be at least two numbers, one per arm, got 0"),
        (lambda: ae.StochasticBandit([0.5, 1.1]), "the mean of arm 1 must be a number from 0 to 1, got 1.1"),
        (lambda: ae.StochasticBandit([-0.1, 0.5]), "the mean of arm 0 must be a number from 0 to 1, got -0.1"),
        (lambda: ae.StochasticBandit([0.5, math.nan]), "the mean of arm 1 must be a number from 0 to 1, got nan"),
        (lambda: ae.StochasticBandit([0.5, "a"]), "the mean of arm 1 must be a number from 0 to 1, got 'a'"),
        (lambda: ae.StochasticBandit([True, 0.5]), "the mean of arm 0 must be a number from 0 to 1, got True"),
        (lambda: ae.StochasticBandit(0.5), "means must be a list, got 0.5"),
        (lambda: ae.StochasticBandit("0.5"), "means must be a list, got '0.5'"),
        (lambda: ae.StochasticBandit({0.9: 1, 0.5: 2}), "means must be a list, got {0.9: 1, 0.5: 2}"),
        (lambda: ae.StochasticBandit({0.5}), "means must be a list, got {0.5}"),
        (lambda: ae.StochasticBandit(b"ab"), "means must be a list, got b'ab'"),
        (lambda: ae.StochasticBandit(np.array(0.5)), "means must be a list, got array(0.5)"),
        (lambda: ae.StochasticBandit([0.5, 10**400]), "the mean of arm 1 must be a number from 0 to 1, got inf"),
        (lambda: ae.Interval(3, 10**5000),
         "last must be a whole number from 0 to 10,000,000, got a number of thousands of digits"),
        (lambda: ae.Geometric(0.5).tail(1.5), "lags must be whole numbers, got 1.5"),
        (lambda: ae.Interval(1, 1).tail([0, 1.5]), "lags must be whole numbers, got [0, 1.5]"),
        (lambda: ae.simulate("ucb1", ae.StochasticBandit([0.9, 0.1], ae.Geometric(1 - 1e-10)), 10**9, engine="slotwise"),
         "geometric(0.9999999999) has a reach of 1,000,000,000 slots, too many for the slotwise engine: use the roundwise engine"),
        (lambda: ae.UniformDelay(-1, 3), "first must be a whole number from 0 to 10,000,000, got -1"),
        (lambda: ae.UniformDelay(3, 2), "the last lag must be at least the first, 3, got 2"),
        (lambda: ae.UniformDelay(1.5, 2), "first must be a whole number from 0 to 10,000,000, got 1.5"),
        (lambda: ae.UniformDelay(1, math.nan), "last must be a whole number from 0 to 10,000,000, got nan"),
        (lambda: ae.UniformDelay(1, math.inf), "last must be a whole number from 0 to 10,000,000, got inf"),
        (lambda: ae.Interval(3, 2), "the last lag must be at least the first, 3, got 2"),
        (lambda: ae.Interval(4, 2), "the last lag must be at least the first, 4, got 2"),
        (lambda: ae.Interval(-4, 3), "first must be a whole number from 0 to 10,000,000, got -4"),
        (lambda: ae.LinearDecay(0), "last must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.LinearRise(-3), "last must be a whole number from 1 to 10,000,000, got -3"),
        (lambda: ae.Geometric(1), "gamma must be a number above 0 and below 1, got 1"),
        (lambda: ae.Geometric(0), "gamma must be a number above 0 and below 1, got 0"),
        (lambda: ae.Geometric(math.nan), "gamma must be a number above 0 and below 1, got nan"),
        (lambda: ae.Shape([0.5, 0.4]), "weights must sum to 1, got a sum of 0.9: divide each by it"),
        (lambda: ae.Shape([]), "weights must not be empty"),
        (lambda: ae.Shape([1.5, -0.5]), "weights[1] must be a number of at least 0, got -0.5"),
        (lambda: ae.Shape([math.nan, 1]), "weights[0] must be a number of at least 0, got nan"),
        (lambda: ae.RandomDelay([0.5, 0.6]), "pmf must sum to 1, got a sum of 1.1: divide each by it"),
        (lambda: ae.RandomDelay(3), "pmf must be a list, got 3"),
        (lambda: ae.ArsUcb(alpha=0), "alpha must be a number above 0, got 0"),
        (lambda: ae.ArsUcb(alpha=-1), "alpha must be a number above 0, got -1"),
        (lambda: ae.ArsUcb(alpha=math.nan), "alpha must be a number above 0, got nan"),
        (lambda: ae.ArsUcb(alpha=math.inf), "alpha must be a number above 0, got inf"),
        (lambda: ae.ArsUcb(alpha="4"), "alpha must be a number above 0, got '4'"),
        (lambda: ae.growth.Power(-1), "p must be a number from 0 to 100, got -1"),
        (lambda: ae.ArsUcb(growth=lambda k: 0), "growth(1) must be a whole number of at least 1, got 0"),
        (lambda: ae.ArsUcb(growth=lambda k: 10 - k), "growth must not decrease, but growth(2) = 8 after 9"),
        (lambda: ae.ArsUcb(growth=lambda k: k**1.5), "growth(2) must be a whole number of at least 1, got 2.82843"),
        (lambda: ae.ArsUcb(growth=lambda k: "x"), "growth(1) must be a whole number of at least 1, got 'x'"),
        (lambda: ae.simulate("ucb1", ENV, 1), "horizon must be at least the number of arms, 2, got 1"),
        (lambda: ae.simulate("ucb1", ENV, 10.5), "horizon must be a whole number from 1 to 9,007,199,254,740,992, got 10.5"),
        (lambda: ae.simulate("ucb1", ENV, 10, 0), "replications must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.simulate("ucb1", ENV, 10, jobs=0), "jobs must be a whole number from 1 to 1,024, got 0"),
        (lambda: ae.simulate("ucb1", ENV, 10, seed=-1),
         "seed must be a whole number from 0 to 9,223,372,036,854,775,807, got -1"),
        (lambda: ae.simulate([], ENV, 10), "at least one policy is needed, got none"),
        (lambda: ae.simulate(["ucb1", ae.Ucb1()], ENV, 10), "each policy must be given once, but ucb1 is given again"),
        (lambda: ae.simulate("ucb1", ENV, 10, engine="fast"), "unknown engine 'fast': known: roundwise, slotwise, cuda, cuda-single, auto"),
        (lambda: ae.simulate("ucb1", ENV, 10, engine="slotwize"), "unknown engine 'slotwize': did you mean 'slotwise'?"),
        (lambda: ae.simulate("ucb1", ENV, 10, checkpoints=0), "checkpoints must be a whole number from 1 to 10,000, got 0"),
        (lambda: ae.simulate("ucb1", ENV, 10, checkpoints=[5, 9]),
         "checkpoints must increase and end with the horizon 10, got [5, 9]"),
        (lambda: ae.simulate("ucb1", ENV, 10, checkpoints=[5, 5, 10]),
         "checkpoints must increase and end with the horizon 10, got [5, 5, 10]"),
        (lambda: ae.simulate("ucb1", ENV, 10, checkpoints=[0, 10]), "a checkpoint must be a whole number from 1 to 10, got 0"),
    ],
)  # fmt: skip
def test_bad_parameters(make, message):
    with pytest.raises(ae.ParameterError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [Decimal, Fraction, np.float32, np.float64, float, str])
def test_numbers_of_every_type_are_numbers(kind):
    if kind is str:
        with pytest.raises(ae.ParameterError, match=r"got '0.5'"):
            ae.StochasticBandit([kind(0.5), kind(0.25)])
        return
    assert ae.StochasticBandit([kind(0.5), kind(0.25)]) == ae.StochasticBandit([0.5, 0.25])
    assert ae.Interval(kind(3), kind(9)) == ae.Interval(3, 9)
    assert type(ae.Interval(kind(3), kind(9)).last) is int
    assert ae.rewards.Recorded([[kind(0.5), kind(0)]]) == ae.rewards.Recorded([[0.5, 0]])


@pytest.mark.parametrize(
    ("value", "came"),
    [
        (Decimal("1.5"), "1.5"),
        (Decimal("NaN"), "nan"),
        (Decimal("sNaN"), "nan"),
        (Decimal("-Infinity"), "-inf"),
        (Decimal("1e999999999"), "inf"),
        (Fraction(3, 2), "1.5"),
        (Fraction(10**400, 3), "inf"),
        (Decimal(10**15), "1000000000000000"),
    ],
)
def test_other_numbers_that_are_no_lag_are_refused(value, came):
    with pytest.raises(
        ae.ParameterError, match=f"last must be a whole number from 1 to 10,000,000, got {came}$"
    ):
        ae.LinearDecay(value)


def test_a_growth_that_fails_late_is_refused_before_the_run():
    late = ae.ArsUcb(growth=lambda k: k if k < 100 else 1)
    with pytest.raises(
        ae.ParameterError, match=r"growth must not decrease, but growth\(100\) = 1 after 99"
    ):
        ae.simulate(late, ENV, 100_000, 1)


def test_a_growth_too_slow_to_tabulate_is_refused(monkeypatch):
    monkeypatch.setattr("aftereffect.growth._MAX_TABLE", 1000)
    with pytest.raises(
        ae.ParameterError,
        match=r"needs over 1,000 rounds for 5,000 slots: use a formula such as power",
    ):
        ae.simulate(ae.ArsUcb(growth=lambda k: 1), ENV, 5_000, 1)


@pytest.mark.parametrize("alpha", [1e-9, 1, 4])
def test_alpha_at_or_below_four_is_allowed(alpha):
    assert ae.ArsUcb(alpha).alpha == alpha
    assert "Theorem 1 needs more than 4" in ae.ArsUcb.__doc__


@pytest.mark.parametrize("given", [ae.Ucb1(), 3, None])
def test_a_thing_of_another_kind_is_refused(given):
    with pytest.raises(ae.SpecError, match="expected a delay, got"):
        ae.StochasticBandit([0.9, 0.1], given)


@pytest.mark.parametrize("given", [None, 5, ae.Ucb1, ENV, [None]])
def test_what_is_no_policy_is_refused(given):
    with pytest.raises(ae.SpecError, match="expected a policy, got"):
        ae.simulate(given, ENV, 10)


def test_what_is_no_text_is_not_parsed():
    with pytest.raises(ae.SpecError, match="expected the spec string of a name, got 5"):
        ae.parse(5)


def test_values_cannot_be_changed_through_their_tables():
    with pytest.raises(ValueError, match="read-only"):
        ENV.gaps[:] = 7


def test_a_name_is_not_taken_over():
    with pytest.raises(
        ae.SpecError,
        match=r"the name 'ucb1' is already that of aftereffect.policies.ucb1.Ucb1",
    ):
        register(dataclasses.make_dataclass("Ucb1", [], bases=(ae.Policy,), frozen=True))
    with pytest.raises(ae.SpecError, match="must be a frozen dataclass"):
        register(type("Plain", (ae.Policy,), {}))
