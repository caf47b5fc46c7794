"""UCB1 in JAX, under vmap and scan: prints slots per second, regret and its error by delay."""

import sys
import time
from functools import partial

import jax
import jax.numpy as jnp

ARMS, LAGS = 9, jnp.arange(30, 40)


@partial(jax.jit, static_argnums=(1, 2))
@partial(jax.vmap, in_axes=(0, None, None))
def play(key, slots, is_delayed):
    """One replication; returns its regret."""
    means = 0.9 - 0.1 * jnp.arange(ARMS)

    def step(carry, t):
        key, pulls, total, arrivals, lost = carry
        key, now = jax.random.split(key)
        width = jnp.sqrt(2.0 * jnp.log(jnp.maximum(t, 1)))
        index = jnp.where(pulls == 0, jnp.inf, total / pulls + width / jnp.sqrt(pulls))
        arm = jnp.argmax(index)
        reward = (jax.random.uniform(now) < means[arm]).astype(pulls.dtype)
        seen = reward
        if is_delayed:
            arrivals = arrivals.at[(t + LAGS) % 40].add(0.1 * reward)
            seen = arrivals[t % 40]
            arrivals = arrivals.at[t % 40].set(0.0)
        pulls, total = pulls.at[arm].add(1.0), total.at[arm].add(seen)
        return (key, pulls, total, arrivals, lost + 0.1 * arm), None

    nothing = jnp.zeros(ARMS)
    begin = (key, nothing, nothing, jnp.zeros(40), jnp.zeros(()))
    return jax.lax.scan(step, begin, jnp.arange(slots))[0][-1]


def main() -> None:
    """Measure both delays."""
    jax.config.update("jax_enable_x64", sys.argv[1] == "double")
    replications, slots = 2**17, 10_000
    for is_delayed in (False, True):
        for seed in (1, 2):  # the first compiles
            keys = jax.random.split(jax.random.key(seed), replications)
            begin = time.perf_counter()
            regret = play(keys, slots, is_delayed).block_until_ready()
            seconds = time.perf_counter() - begin
        error = regret.std() / replications**0.5
        print(replications * slots / seconds, regret.mean(), error)


if __name__ == "__main__":
    main()
