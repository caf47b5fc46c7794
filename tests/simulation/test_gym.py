"""Bandits as Gymnasium environments: what they answer is what simulations play."""

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import aftereffect as ae
from aftereffect.gym import AftereffectEnv, AftereffectVectorEnv

INTERVAL = "stochastic-bandit([0.9, 0.5], delay=interval(2, 5))"


def played(env, arms, seed=1):
    """Totals, and what each step says, of a fixed play."""
    env.reset(seed=seed)
    steps = [env.step(arm) for arm in arms]
    return np.array([step[1] for step in steps]), [step[4] for step in steps]


@pytest.mark.parametrize(
    "bandit",
    [
        INTERVAL,
        "stochastic-bandit([0.9, 0.5], delay=uniform-delay(0, 9), reward_law=beta(2))",
        "stochastic-bandit([0.9, 0.5], delay=geometric(0.9))",
        "stochastic-bandit([0.9, 0.5], delay=per-arm([immediate, interval(3, 4)]))",
        "adversarial-bandit(drawn-arm([0.6, 0.4], seed=1), delay=hold-back(3))",
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # its spaces have no upper end
def test_gymnasium_finds_nothing_to_complain_about(bandit):
    check_env(gymnasium.make("aftereffect/Bandit-v0", bandit=bandit, horizon=60).unwrapped)


def test_totals_are_the_rewards_cut_and_delayed():
    arms = [0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0]
    totals, infos = played(AftereffectEnv(INTERVAL, 12), arms)
    generated = np.array([info["generated"] for info in infos])
    expected = np.convolve(generated, [0, 0, 0.25, 0.25, 0.25, 0.25])[:12]
    assert np.allclose(totals, expected)
    in_flight = np.cumsum(generated) - np.cumsum(expected)
    assert np.allclose([info["in_flight"] for info in infos], in_flight)
    assert np.allclose([info["regret"] for info in infos], np.cumsum(np.array(arms) * 0.4))
    assert [info["slot"] for info in infos] == list(range(1, 13))


def test_means_of_totals_are_those_of_a_simulation():
    """The engine of a simulation and the environment, by the mean total once all lags are filled."""
    runs = np.array(
        [played(AftereffectEnv(INTERVAL, 200), [0] * 200, seed)[0] for seed in range(40)]
    )
    after = runs[:, 5:]
    error = np.sqrt(0.9 * 0.1 / after.size)  # shares spread a reward, which only lowers the noise
    assert abs(after.mean() - 0.9) < 4 * error
    assert (runs[:, :2] == 0).all()


def test_the_same_seed_gives_the_same_episode():
    env = AftereffectEnv(INTERVAL, 50)
    first, again, other = (played(env, [0, 1] * 25, seed)[0] for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_copy_goes_on_by_itself():
    env = AftereffectEnv(INTERVAL, 50)
    env.reset(seed=1)
    env.step(0)
    twin = copy.deepcopy(env)
    assert [env.step(0)[1] for _ in range(40)] == [twin.step(0)[1] for _ in range(40)]


def test_an_episode_is_truncated_at_the_horizon():
    env = AftereffectEnv(INTERVAL, 2)
    with pytest.raises(ae.ParameterError, match="call reset"):
        env.step(0)
    env.reset(seed=1)
    assert [env.step(0)[2:4] for _ in range(2)] == [(False, False), (False, True)]
    with pytest.raises(ae.ParameterError, match="call reset"):
        env.step(0)


@pytest.mark.parametrize(
    ("bandit", "horizon", "message"),
    [
        ("seasonal-bandit([0, 0.1])", 10, "stochastic or an adversarial bandit"),
        (INTERVAL, 0, "horizon must be"),
        ("stochastic-bandit([0.9])", 10, "at least two"),
    ],
)
def test_what_cannot_be_an_environment_is_refused(bandit, horizon, message):
    with pytest.raises(ae.AftereffectError, match=message):
        AftereffectEnv(bandit, horizon)


def test_an_action_must_be_an_arm():
    env = AftereffectEnv(INTERVAL, 10)
    env.reset(seed=1)
    with pytest.raises(ae.ParameterError, match="0 to 1, got 2"):
        env.step(2)


def test_many_at_once_are_the_same_as_one_by_one():
    envs = gymnasium.make_vec("aftereffect/Bandit-v0", num_envs=3, bandit=INTERVAL, horizon=20)
    assert isinstance(envs.unwrapped, AftereffectVectorEnv)
    envs.reset(seed=5)
    together = np.array([envs.step(np.array([0, 1, 0]))[1] for _ in range(20)])
    alone = [
        played(AftereffectEnv(INTERVAL, 20), [arm] * 20, 5 + n)[0]
        for n, arm in enumerate((0, 1, 0))
    ]
    assert np.array_equal(together.T, alone)
