"""NASNet-A and PNASNet-5: a network is a table of cells (`nasnet`, `pnasnet`), a cell is a table of
operations (`cells`), and `network.build` walks them.
"""

from nets.nasnet.nasnet import (
    nasnet_cifar,
    nasnet_cifar_arg_scope,
    nasnet_large,
    nasnet_large_arg_scope,
    nasnet_mobile,
    nasnet_mobile_arg_scope,
)
from nets.nasnet.pnasnet import (
    pnasnet_large,
    pnasnet_large_arg_scope,
    pnasnet_mobile,
    pnasnet_mobile_arg_scope,
)

__all__ = [
    "nasnet_cifar",
    "nasnet_cifar_arg_scope",
    "nasnet_large",
    "nasnet_large_arg_scope",
    "nasnet_mobile",
    "nasnet_mobile_arg_scope",
    "pnasnet_large",
    "pnasnet_large_arg_scope",
    "pnasnet_mobile",
    "pnasnet_mobile_arg_scope",
]
