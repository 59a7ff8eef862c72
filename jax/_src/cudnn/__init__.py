"""Fused operations of cuDNN, under the module names that outside code imports."""

from jax._src.cudnn.fusion import cudnn_fusion as cudnn_fusion
