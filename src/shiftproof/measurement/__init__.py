"""How a network's answer changes when its pictures move: the measurement, its result, its page."""
