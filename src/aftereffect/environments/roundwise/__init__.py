"""The fast engine: the same law as the literal one, drawing only what a round's total needs.

A round plays one arm in the slots t .. end and looks at the window start .. end. For every spread and reward law ::

    total(window) = generated(window) + pending(start - 1) - pending(end)

where pending(x) is what pulls up to slot x deliver after it. Only pulls within one reach of the window's two edges can be
pending at either, so only those are drawn one by one:

- A, the pulls of this round in [start - reach, start - 1];
- B, the pulls of the window in [end - reach + 1, end].

The interior of the window delivers all it generates within it, whatever the spread: one draw of a sum. What lies before A
is never drawn. Rounds that are long against the reach thus cost O(reach), not O(slots).

Each family of spreads has a recipe, in a file of its own. All sums there but the power law's are of positive terms, pending
before and after taken together pull by pull, so that nothing cancels and a window in which nothing lands is exactly 0, as in
the literal engine.
"""

from aftereffect.environments.roundwise import fixed_shares, geometric, power_law, random_lag
from aftereffect.environments.roundwise.recipe import SpreadCollect, collected, recipe

__all__ = ["SpreadCollect", "collected", "fixed_shares", "geometric", "power_law", "random_lag", "recipe"]
