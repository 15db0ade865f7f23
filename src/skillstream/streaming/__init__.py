"""A stream that can be left running: sources, the gate for bad lines, the state on disk, the loop."""
