"""Ship it: export, freeze, and the frameworks people use."""
