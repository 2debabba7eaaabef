"""The demo, and the posteriors and digits that ship with the package."""
