"""Loads the extension.

Waiting threads of OpenMP spin for milliseconds, so on a busy machine they keep each other from the
processors. OpenMP reads its variables once, when it is loaded; after that the environment is again
as the caller had it.
"""

import os

_spins = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys()
if _spins:
    os.environ["GOMP_SPINCOUNT"] = "1000"
try:
    from nystrom._core import (
        NoGrad as NoGrad,
        Step as Step,
        Tape as Tape,
        Tensor as Tensor,
        checkpoint as checkpoint,
        num_threads as num_threads,
        set_num_threads as set_num_threads,
        version as version,
    )
finally:
    if _spins:
        del os.environ["GOMP_SPINCOUNT"]
