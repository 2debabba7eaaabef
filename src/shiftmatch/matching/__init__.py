"""Matching in a network: its sites, their statistics, and the matched network."""
