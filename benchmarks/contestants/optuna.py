"""Optuna's ask and tell on SQLite: one parameter with a choice per arm, its cheapest sampler."""

import json
import random
import sqlite3
import sys
from dataclasses import asdict

import optuna

from contestants.pace import paced


def main(path: str, arms: list[str], pairs: int, *, wal: bool) -> None:
    """Measure in a new file and print the pace; WAL mode is a property of the file."""
    if wal:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage, rng = optuna.storages.RDBStorage(f"sqlite:///{path}"), random.Random(1)
    study = optuna.create_study(
        storage=storage, sampler=optuna.samplers.RandomSampler(seed=1), direction="maximize"
    )

    def pair() -> None:
        trial = study.ask()
        trial.suggest_categorical("arm", arms)
        study.tell(trial, rng.random())

    print(json.dumps(asdict(paced(pair, pairs))))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
