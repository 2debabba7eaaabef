"""Make trained networks robust to corrupted inputs at test time, without gradients or retraining."""

__version__ = "0.1.0"
