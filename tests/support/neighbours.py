"""Let other tools read what `export` writes, each in an environment of its own: `make neighbours`.

cluster-experiments must find the effect with which totals were made up; pymc-marketing must build
a model of the table.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

import aftereffect as ae

FOLDER = Path(__file__).parents[2] / "build" / "neighbours"
DAYS, LIFT = 120, 20.0
CLUSTERS = f"""
import pandas
from cluster_experiments.experiment_analysis import GeeExperimentAnalysis
table = pandas.read_csv("clusters.csv")
analysis = GeeExperimentAnalysis(cluster_cols=["cluster"], treatment="new")
effect = analysis.get_point_estimate(table)
assert abs(effect - {LIFT}) < 4, effect
assert analysis.get_pvalue(table) < 0.01
print(f"cluster-experiments: an effect of {{effect:.1f}}, where {LIFT} is true")
"""
MIX = """
import pandas
from pymc_marketing.mmm import GeometricAdstock, LogisticSaturation
from pymc_marketing.mmm.multidimensional import MMM
table = pandas.read_csv("mmm.csv", parse_dates=["date"])
channels = [name for name in table.columns if name.startswith("arm_")]
model = MMM(date_column="date", channel_columns=channels, target_column="total",
            adstock=GeometricAdstock(l_max=4), saturation=LogisticSaturation())
model.build_model(table[["date", *channels]], table["total"])
assert [str(name) for name in model.model.coords["channel"]] == channels
print(f"pymc-marketing: a model of {len(table)} days with the channels {channels}")
"""


def export() -> None:
    """Made-up days, of which those of the new arm bring more."""
    rng = np.random.default_rng(1)
    settings = {"arms": ["old", "new"], "control": "old", "control_share": 0.4, "slot": "1d"}
    with ae.Experiment.create(
        "shop", start="2026-03-02", seed=1, storage="memory://", **settings
    ) as shop:
        for day in range(DAYS):
            level = 100 + LIFT * (shop.ask(day).arm == "new")
            shop.tell(day, level * np.exp(rng.normal(0, 0.05)))
        for form in ("mmm", "clusters"):
            shop.export(FOLDER / f"{form}.csv", form=form)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    export()
    for package, program in (("cluster-experiments", CLUSTERS), ("pymc-marketing", MIX)):
        home = FOLDER / package
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        python = home / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
        command = [python, "-W", "ignore", "-c", program]
        subprocess.run(command, check=True, cwd=FOLDER)
