"""Predictors on corruptions at severities: suites, streams and the scores they give."""
