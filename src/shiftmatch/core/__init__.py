"""Maths on tensors: no nn.Module, no files, no randomness."""
