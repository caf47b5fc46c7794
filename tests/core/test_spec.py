"""Spec strings: they round-trip, and what cannot be read is refused in one line."""

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aftereffect as ae
import samples
from aftereffect._core.spec import Spec, list_registered, name_of

KNOWN = ", ".join(map(name_of, list_registered(ae.Policy)))


@pytest.mark.parametrize(
    "thing",
    [
        *samples.DELAYS,
        *samples.PER_ARM,
        *samples.POLICIES,
        *samples.SLOT_POLICIES,
        *samples.ATTRIBUTED_POLICIES,
        *samples.UNIT_POLICIES,
        *samples.GROWTHS,
        *samples.REWARDS,
        *samples.BANDITS,
        *samples.ADVERSARIAL,
        *samples.DEMAND,
        *samples.DEFECTS,
    ],
    ids=str,
)
def test_round_trip(thing):
    assert ae.parse(str(thing)) == thing
    assert ae.parse(str(thing), type(thing)) == thing
    pasted = eval(repr(thing), {cls.__name__: cls for cls in list_registered(Spec)})
    assert pasted == thing


@given(
    st.floats(min_value=0, max_value=1e300, exclude_min=True), st.floats(min_value=0, max_value=100)
)
def test_round_trip_keeps_every_digit(alpha, power):
    policy = ae.ArsUcb(alpha, ae.growth.Power(power))
    assert ae.parse(str(policy)) == policy


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=2, max_size=12))
def test_round_trip_of_means(means):
    bandit = ae.StochasticBandit(means, ae.LinearRise(3))
    assert ae.parse(str(bandit)) == bandit


@given(st.text(alphabet="ars-ucb(growth=power2)[],. \t1e5", max_size=40))
def test_any_text_is_read_or_refused_as_a_spec(text):
    with contextlib.suppress(ae.SpecError, ae.ParameterError):
        assert isinstance(ae.parse(text, ae.Policy), ae.Policy)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ars-ucb", ae.ArsUcb()),
        (" ars-ucb( alpha = 2 ,growth=exponential )", ae.ArsUcb(2, ae.growth.Exponential())),
        ("ars-ucb(2, power(3))", ae.ArsUcb(2, ae.growth.Power(3))),
        ("interval(30,39)", ae.Interval(30, 39)),
        ("interval(first=30,last=4e1)", ae.Interval(30, 40)),
        ("shape([.2,.8])", ae.Shape([0.2, 0.8])),
        ("geometric(.9)", ae.Geometric(0.9)),
        ("immediate()", ae.Immediate()),
    ],
)
def test_reading(text, expected):
    assert ae.parse(text) == expected


def test_required_parameters_are_written_by_place_and_others_by_name():
    assert str(ae.Interval(30, 39)) == "interval(30, 39)"
    assert str(ae.ArsUcb(4)) == "ars-ucb(alpha=4, growth=power(2))"
    assert str(ae.Ucb1()) == "ucb1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ars-ubc", "unknown policy 'ars-ubc': did you mean 'ars-ucb'?"),
        ("zzz", f"unknown policy 'zzz': known: {KNOWN}"),
        ("ars-ucb(alfa=1)", "ars-ucb has no parameter 'alfa': did you mean 'alpha'?"),
        ("ars-ucb(growth=powr(2))", "unknown growth 'powr': did you mean 'power'?"),
        ("ars-ucb(growth=exponental)", "unknown growth 'exponental': did you mean 'exponential'?"),
        ("ars-ucb(growth=geometrc(2))", "unknown growth 'geometrc': known: exponential, power"),
        ("ars-ucb(4, powr(2))", "unknown growth 'powr': did you mean 'power'?"),
        ("ars-ucb(growth=immediate)", "expected a growth, got the delay 'immediate'; known: exponential, power"),
        ("immediate", f"expected a policy, got the delay 'immediate'; known: {KNOWN}"),
        ("ars-ucb(alpha=1, alpha=2)", "ars-ucb is given 'alpha' twice"),
        ("ars-ucb(alpha=1, power(2))", "cannot read the spec 'ars-ucb(alpha=1, power(2))': a positional argument "
         "('power') comes after a named one"),
        ("ars-ucb(1, 2, 3)", "ars-ucb: too many positional arguments; write ars-ucb(alpha=4, growth=power(2))"),
        ("ars-ucb(alpha=4", "cannot read the spec 'ars-ucb(alpha=4': expected ',' or ')', got the end"),
        ("ars-ucb)", "cannot read the spec 'ars-ucb)': expected the end, got ')'"),
        ("", "cannot read the spec '': expected a name, a number or a list, got the end"),
        ("__import__('os')", "cannot read the spec \"__import__('os')\": expected a name, a number or a list, got '_'"),
        ("7", f"expected a policy, got '7'; known: {KNOWN}"),
        ("[" * 1000, f"cannot read the spec '{'[' * 59}...: nested more than 20 deep"),
    ],
)  # fmt: skip
def test_refusals(text, message):
    with pytest.raises(ae.SpecError) as caught:
        ae.parse(text, ae.Policy)
    assert str(caught.value) == message


def test_a_missing_parameter_shows_how_to_write_it():
    with pytest.raises(
        ae.SpecError,
        match=r"interval: missing a required argument: 'last'; write interval\(first, last\)",
    ):
        ae.parse("interval(30)")


def test_pickles_hold_parameters_only():
    delay = ae.Interval(0, 99_999)
    assert delay.tail(5) > 0.99
    assert len(pickle.dumps(delay)) < 200
    assert pickle.loads(pickle.dumps(delay)) == delay


def test_numbers_of_any_length_are_read_or_refused():
    with pytest.raises(ae.ParameterError, match="alpha must be a number above 0, got inf"):
        ae.parse(f"ars-ucb(alpha={'9' * 5000})")
