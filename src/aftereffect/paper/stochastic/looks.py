"""How each policy looks: the same in every figure, told apart by colour and, in grey print, by its dashes."""

from collections.abc import Mapping

from aftereffect.growth import Exponential, Power
from aftereffect.policies import ArsUcb, GeneralizedOdaaf, Odaaf, Policy, Ucb1
from aftereffect.simulation.plotting import Look

LONG, DASH_DOT_DOT, DASH_DASH_DOT = (0, (9, 3)), (0, (5, 1, 1, 1, 1, 1)), (0, (6, 1, 6, 1, 1, 1))

LOOKS: Mapping[Policy, Look] = {
    ArsUcb(4, Power(2)): Look("ARS-UCB, alpha 4, rounds k²", "#0072B2", "-"),
    ArsUcb(1, Power(2)): Look("ARS-UCB, alpha 1, rounds k²", "#56B4E9", "--"),
    ArsUcb(2, Power(2)): Look("ARS-UCB, alpha 2, rounds k²", "#009E73", "-."),
    ArsUcb(8, Power(2)): Look("ARS-UCB, alpha 8, rounds k²", "#332288", ":"),
    ArsUcb(4, Power(1)): Look("ARS-UCB, alpha 4, rounds k", "#44AA99", "--"),
    ArsUcb(4, Power(3)): Look("ARS-UCB, alpha 4, rounds k³", "#882255", "-."),
    ArsUcb(4, Exponential()): Look("ARS-UCB, alpha 4, rounds 2ᵏ", "#999933", ":"),
    Odaaf("mean"): Look("ODAAF, told the mean delay", "#D55E00", LONG),
    Odaaf("bounded"): Look("ODAAF, told mean and bound", "#E69F00", DASH_DOT_DOT),
    Odaaf("variance"): Look("ODAAF, told mean and variance", "#CC79A7", DASH_DASH_DOT),
    GeneralizedOdaaf(): Look("generalised ODAAF, told the bound", "#661100", LONG),
    Ucb1(): Look("UCB1, naive", "#000000", (0, (1, 4))),
}
