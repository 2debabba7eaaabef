"""Where the maths meets a network: places in it, what is measured there, and the matched network."""
