"""Files from anyone: bounded reading, atomic writes, locks, restricted unpickling, archives, pictures."""
