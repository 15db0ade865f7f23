"""Acting: a hierarchy at work in a world."""
