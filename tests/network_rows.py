"""Which rows of tests that run for each network take long, or are for a release only."""

import pytest

from nets.nets_factory import NETWORKS

# They differ from another network in the number or the width of their layers alone.
DEEPER = frozenset(
    {
        "vgg_a",
        "vgg_19",
        "resnet_v1_101",
        "resnet_v1_152",
        "resnet_v1_200",
        "resnet_v2_101",
        "resnet_v2_152",
        "resnet_v2_200",
        "nasnet_large",
        "pnasnet_large",
    }
)


def rows(quick, names=NETWORKS):
    """Parameters for pytest.mark.parametrize.

    Args:
      quick: names of networks whose test is quick.
      names: of the networks.
    """
    return [pytest.param(name, marks=_marks(name, quick)) for name in names]


def _marks(name, quick):
    marks = [] if name in quick else [pytest.mark.slow]
    return [*marks, pytest.mark.exhaustive] if name in DEEPER else marks
