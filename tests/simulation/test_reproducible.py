"""The same seed gives the same result, bit for bit."""

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.simulation._driver import Streams

ENV = ae.StochasticBandit([0.9, 0.6, 0.3], ae.UniformDelay(3, 9))
POLICIES = ["ars-ucb", "ucb1"]


def study(engine, replications=40, policies=POLICIES, **settings):
    return ae.simulate(policies, ENV, 2_000, replications, seed=7, engine=engine, **settings)


def assert_equal(first, second, replications=40):
    for a, b in zip(first, second, strict=True):
        for name in ("regret", "pulls", "rounds"):
            assert np.array_equal(getattr(a, name)[:replications], getattr(b, name)[:replications])


each_engine = pytest.mark.parametrize("engine", ["roundwise", "slotwise"])


@each_engine
def test_run_again(engine):
    assert_equal(study(engine), study(engine))


@each_engine
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_any_number_of_jobs(engine, jobs):
    assert_equal(study(engine, jobs=jobs), study(engine))


@each_engine
@pytest.mark.parametrize("fewer", [1, 17, 100])
def test_replications_alone_or_as_part_of_more(engine, fewer):
    assert_equal(study(engine, 200), study(engine, fewer), fewer)
    assert_equal(study(engine, 200), study(engine, fewer, jobs=1), fewer)


@each_engine
def test_other_policies_change_nothing(engine):
    both = study(engine)
    alone = study(engine, policies=["ucb1"])
    assert np.array_equal(both["ucb1"].regret, alone["ucb1"].regret)


@each_engine
def test_other_seeds_and_replications_differ(engine):
    first = study(engine)["ucb1"].final
    other = ae.simulate("ucb1", ENV, 2_000, 40, seed=8, engine=engine)["ucb1"].final
    assert not np.array_equal(first, other)
    assert len(set(first)) > 1


def test_an_unseeded_run_reports_the_seed_it_drew():
    first = ae.simulate("ucb1", ENV, 500, 5)
    again = ae.simulate("ucb1", ENV, 500, 5, seed=first.seed)
    assert_equal(first, again)
    assert first.seed != ae.simulate("ucb1", ENV, 500, 5).seed


def test_golden_values():
    """A study that is run again with a later version gives the same numbers, or this test and the changelog say so."""
    regret = ae.simulate("ars-ucb", ENV, 2_000, 3, seed=7)["ars-ucb"].final
    assert regret == pytest.approx([140.1, 169.5, 115.8])


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_streams_are_those_of_numpy_by_seed_and_replication(seed):
    streams = Streams()
    for replications in (range(3), range(5, 21), range(999_999, 1_000_000)):
        begins, *pairs = streams.arguments_for(seed, replications)
        assert begins.shape == (len(replications), 2, 4)
        for part, (register, generator) in enumerate(zip(pairs[:2], pairs[2:], strict=True)):
            for words, replication in zip(begins[:, part], replications, strict=True):
                fresh = np.random.Generator(
                    np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(replication, part)))
                )
                register.words[:], register.rest[0] = words, 0
                assert generator.bit_generator.state == fresh.bit_generator.state
                assert np.array_equal(generator.random(5), fresh.random(5))
                generator.integers(9, dtype=np.uint32)  # leaves half a number behind
                assert register.rest[0]
