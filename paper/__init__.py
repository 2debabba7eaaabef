"""The paper again: experiments, recipes and results. Run from a clone; not part of the installed package."""
