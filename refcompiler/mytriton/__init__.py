"""mytriton's surface over this compiler: `import refcompiler.mytriton as mytriton` is the one line a script changes.

Same compiler, other defaults: elementwise extrema and reductions propagate NaN, masked-off lanes of a load read 0, a
launch gives (traced ops, optimised ops, source text). docs/coming-from-mytriton.md says what differs.
"""

from refcompiler.jit import cdiv, next_power_of_2
from refcompiler.mytriton import language
from refcompiler.mytriton.kernel import Kernel, LaunchResult, jit
from refcompiler.runtime import gpu_available as cuda_available

__all__ = ["Kernel", "LaunchResult", "cdiv", "cuda_available", "jit", "language", "next_power_of_2"]
