"""Parameters and layers.

Layers declare their parameters under a scope of a ParameterStore. After all declarations
`allocate` makes the parameters, and `initialise` or `set` gives them values.
"""

from __future__ import annotations

from nystrom import _core
from nystrom._core.nn import (
    Dropout as Dropout,
    LayerNorm as LayerNorm,
    Linear as Linear,
    Parameter as Parameter,
    ParameterStore as ParameterStore,
    Scope as Scope,
)
from nystrom._options import overrides

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Encoder(_core.nn.Encoder):
    """A whole encoder: ids [b, n] → hidden states [b, n, hidden].

    The options are those of the section `model`: Encoder(scope, hidden_size=64, vocab_size=1000,
    attention={"num_landmarks": 8}). `nystrom config --explain model` lists them.
    """

    def __init__(self, scope: Scope, **options: Any) -> None:
        super().__init__(scope, overrides({"model": options}))
