"""How a network's answers change when its pictures are shifted: the measurement, its result, its page."""
