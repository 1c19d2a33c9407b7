"""`TensorDescriptor` for arguments of kernels, as `triton.tools.tensor_descriptor` offers it."""

from refcompiler.jit.descriptors import TensorDescriptor

__all__ = ["TensorDescriptor"]
