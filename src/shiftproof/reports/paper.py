"""Numbers the paper prints, to stand beside ours. The only place where they are typed."""

from __future__ import annotations

# section 4.4: absolute difference between the downsampled cameraman image and its shifted version; neither the shift
# nor whether the difference is summed, averaged or maximised is stated
CAMERAMAN_AD = {"max": 2.77, "lpf": 0.70, "aps": 0.48, "ghs": 0.00}
