"""Output layers with millions of labels for PyTorch, computed by sparsenet's kernels on a CPU.

Needs PyTorch: ``pip install sparsenet[torch]``. Nothing else in sparsenet imports this package.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # a clear message instead of one about a module inside
    raise ImportError("sparsenet.torch needs PyTorch: pip install torch, or pip install 'sparsenet[torch]'") from error

from sparsenet.torch.classifier_module import ClassifierModule, as_module
from sparsenet.torch.extreme_head import ExtremeHead, TopLabels

__all__ = ["ClassifierModule", "ExtremeHead", "TopLabels", "as_module"]
