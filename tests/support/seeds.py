"""The seed of tests that choose by chance: the same at every run, so that a red build is red for
everyone. ZONED_SEED asks for another one.
"""

import os

SEED_VARIABLE = "ZONED_SEED"
USUAL_SEED = 20261118


def seed_of_run() -> int:
    """The seed, printed so that a failure shows it."""
    seed = int(os.environ.get(SEED_VARIABLE, USUAL_SEED))
    print(f"{SEED_VARIABLE}={seed}")
    return seed
