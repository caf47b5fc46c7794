"""The engine "cuda" beside other ways to do the same: ``make bench-gpu`` writes docs/gpu.md.

It needs an NVIDIA GPU. The rows of JAX and of hand-written CUDA appear where JAX and nvcc are.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import aftereffect as ae
from aftereffect._core import parse
from aftereffect.bandits import Bandit
from aftereffect.policies import Policy
from aftereffect.reproduction import markdown_table
from aftereffect.simulation import Runs, Task, prepare
from aftereffect.simulation._replications import give_facts
from tables import replace_between_markers

BEGIN, END = "<!-- gpu: written by make bench-gpu -->", "<!-- /gpu -->"
HERE = Path(__file__).parent
NINE = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
DELAYS = {"no delay": ae.Immediate(), "lags 30 .. 39": ae.Interval(30, 39)}
SLOTS, REPLICATIONS, SEED = 10_000, 2**20, 7
#: Replications on a CPU, for each core: of UCB1, of other policies, and of adaptive switchbacks.
ON_CPU, OTHERS_ON_CPU, DEMAND_ON_CPU = 4_000, 400, 20
POLICIES = ("ucb1", "exp3", "ars-kl-ucb", "settle-ucb", "ars-ucb", "ars-clw")
OTHER_DELAYS = ("uniform-delay(30, 39)", "geometric(0.9)", "power-law(2)")
#: Eight weeks of hours.
DEMAND_SLOTS, DEMAND_REPLICATIONS = 1_344, 10_000
DEMAND = 'seasonal-bandit([0, 0.1, 0.2, 0.3], delay=interval(0, 6), slot="1h")'


def make_task(policy: str, bandit: Bandit, slots: int, count: int) -> Task:
    """The task on the GPU."""
    known = give_facts(parse(policy, Policy), bandit)
    return Task(known, bandit, "cuda", slots, (slots,), SEED, range(count))


def measure_gpu(task: Task) -> tuple[float, float, Runs]:
    """Seconds to compile and to play, with results copied back, and the results.

    The second of two times counts: at first the device makes room.
    """
    begin = time.perf_counter()
    device = prepare(task).device
    compiled = time.perf_counter() - begin
    if device is None:
        raise TypeError(f"{task} is not for a GPU")
    seconds = []
    for _ in range(2):
        runs = Runs.zeros(task)
        seconds.append(
            device.play(task.seed, task.replications, task.horizon, task.checkpoints, *runs)
        )
    return compiled, seconds[-1], runs


def measure_cpu(policy: str, bandit: Bandit, jobs: int, slots: int, count: int) -> Any:
    """Slots per second of so many cores, and the runs."""
    ae.simulate(policy, bandit, slots, jobs, seed=1, jobs=jobs, checkpoints=1)  # compiles
    begin = time.perf_counter()
    runs = ae.simulate(policy, bandit, slots, count * jobs, seed=2, jobs=jobs, checkpoints=1)[0]
    seconds = runs.seconds if jobs == 1 else time.perf_counter() - begin
    return slots * count * jobs / seconds, runs


def short(speed: float) -> str:
    """Two digits, such as 2.9e10."""
    return f"{speed:.1e}".replace("e+0", "e").replace("e+", "e")


def describe(regret: Any) -> str:
    """Mean and standard error."""
    return f"{regret.mean():,.2f} ± {regret.std() / len(regret) ** 0.5:.2f}"


def measure_ucb1() -> list[list[str]]:
    """A row for each way to play UCB1."""
    found: dict[str, list[str]] = {}
    for delay in DELAYS.values():
        bandit = ae.StochasticBandit(NINE, delay)
        _, seconds, runs = measure_gpu(make_task("ucb1", bandit, SLOTS, REPLICATIONS))
        regret = runs.regret[:, -1]
        found.setdefault('aftereffect, `engine="cuda"`', []).extend(
            [short(SLOTS * REPLICATIONS / seconds), describe(regret)]
        )
        for jobs in (1, len(os.sched_getaffinity(0))):
            speed, played = measure_cpu("ucb1", bandit, jobs, SLOTS, ON_CPU)
            name = f"aftereffect, {jobs} CPU core{'s' if jobs > 1 else ''}"
            found.setdefault(name, []).extend([short(speed), describe(played.final)])
    others = [("JAX, `vmap` and `scan`", [sys.executable, str(HERE / "gpu_jax.py")])]
    if find_spec("jax") is None:
        others = []
    with tempfile.TemporaryDirectory() as folder:
        if shutil.which("nvcc"):
            for real in ("double", "float"):
                program = Path(folder) / real
                source = str(HERE / "gpu_limit.cu")
                options = ["-O3", "-arch=native", f"-DREAL={real}", "-o", str(program)]
                subprocess.run(["nvcc", *options, source], check=True)
                others.append((f"CUDA C++ by hand, {real}", [str(program)]))
        for name, command in others:
            given = ["double"] if "JAX" in name else []
            done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name} failed: {done.stderr[-300:]}", file=sys.stderr)
                continue
            for line in done.stdout.splitlines():
                speed, mean, error = map(float, line.split())
                found.setdefault(name, []).extend([short(speed), f"{mean:,.2f} ± {error:.2f}"])
    return [[name, *cells] for name, cells in found.items()]


def measure_others() -> list[list[str]]:
    """A row for each policy and delay on the GPU, beside one CPU core."""
    pairs = [(policy, ae.StochasticBandit(NINE, ae.Interval(30, 39))) for policy in POLICIES]
    pairs += [("ucb1", ae.StochasticBandit(NINE, delay)) for delay in OTHER_DELAYS]
    rows = []
    for policy, bandit in pairs:
        compiled, seconds, runs = measure_gpu(make_task(policy, bandit, SLOTS, REPLICATIONS // 4))
        speed = SLOTS * REPLICATIONS / 4 / seconds
        cpu, played = measure_cpu(policy, bandit, 1, SLOTS, OTHERS_ON_CPU)
        name = f"`{policy}`, `{bandit.delay}`"
        regret = describe(runs.regret[:, -1])
        regrets = [regret, describe(played.final)]
        rows.append([name, short(speed), short(cpu), f"{compiled:.1f} s", *regrets])
        print(rows[-1], file=sys.stderr)
    return rows


def measure_demand() -> str:
    """A sentence on adaptive switchbacks."""
    bandit = parse(DEMAND, Bandit)
    task = make_task("adaptive-switchback", bandit, DEMAND_SLOTS, DEMAND_REPLICATIONS)
    compiled, seconds, runs = measure_gpu(task)
    speed, played = measure_cpu("adaptive-switchback", bandit, 1, DEMAND_SLOTS, DEMAND_ON_CPU)
    return (
        f"`adaptive-switchback` with {bandit.arms} arms over {DEMAND_SLOTS:,} slots: "
        f"{DEMAND_REPLICATIONS / seconds:,.0f} replications per second, and "
        f"{speed / DEMAND_SLOTS:,.0f} on one CPU core; it compiles for {compiled:.0f} s. "
        f"The regret is {describe(runs.regret[:, -1])}, on the CPU {describe(played.final)}."
    )


def describe_machine() -> str:
    """The device, its driver and the versions."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    device = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    name, driver = device.splitlines()[0].split(", ")
    return (
        f"Measured on one {name}, driver {driver}, numba-cuda {version('numba-cuda')}, numba "
        f"{version('numba')}, Python {platform.python_version()}, and CPU cores beside it."
    )


def main() -> None:
    """Measure, and write the tables."""
    target = Path(sys.argv[1])
    ucb1 = [
        "UCB1, T = 10,000",
        *(f"{head}, {delay}" for delay in DELAYS for head in ("slots/s", "regret")),
    ]
    others = ["policy, delay", "slots/s", "one CPU core", "compiles", "regret", "on the CPU"]
    parts = [describe_machine()]
    for make in (
        lambda: markdown_table(ucb1, measure_ucb1()),
        lambda: markdown_table(others, measure_others()),
        measure_demand,
    ):
        parts.append(make())
        print(parts[-1], flush=True)
        replace_between_markers(target, BEGIN, END, "\n\n".join(parts))  # keeps what is done


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
