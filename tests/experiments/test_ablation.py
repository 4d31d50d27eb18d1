"""The ablation: every variant is a network of its own that runs."""

import torch

from shiftproof.experiments import catalogue, records
from shiftproof.models import create_model


def test_every_variant_of_the_ablation_runs() -> None:
    """Each row is a network of its own."""
    configs = catalogue.plan("ablation", "smoke", seeds=[0])
    assert len({records.identity(c.to_dict(), "", "", {}) for c in configs}) == len(catalogue.ABLATION)
    for c in configs:
        model = create_model(c.model.name, c.model.method, head=c.model.head, share=c.model.share, **c.model.options)
        assert model(torch.rand(2, 3, 32, 32)).isfinite().all()
    assert catalogue.settings("ablation", "laptop").on == "validation"
