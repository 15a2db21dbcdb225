"""All differentiable functions of nystrom.Tensor. NumPy arrays are constants among their inputs."""

from nystrom._core.ops import *  # noqa: F403
