"""The optimizer of the parameters of a nn.ParameterStore."""

from nystrom._core.optim import AdamW as AdamW, clip_factor as clip_factor
