"""Measurements in, pictures and pages out."""
