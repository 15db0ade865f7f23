"""The commands: a module each, with its flags and what it does. Heavy imports wait until a command runs."""
