"""Experiments: each a value with a run that returns what it has measured."""
