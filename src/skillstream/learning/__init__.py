"""Learning: Baum-Welch from data at rest (batch) and from a stream (online)."""
