"""What each supported GPU architecture offers: limits with their units, instruction families."""

from __future__ import annotations

from dataclasses import dataclass

from refcompiler.errors import CompileError, LaunchError

KIB = 1024
LEAST_SHARED_BYTES = 99 * KIB  # of a block, which every target has
RESIDENT = 128  # programs that run at a time where there is no GPU: less than those have multiprocessors for
WARP_SIZE = 32


@dataclass(frozen=True)
class Target:
    """One GPU architecture as the compiler sees it.

    Limits are those of the CUDA C++ Programming Guide 12.9, "Technical Specifications per Compute
    Capability"; instruction families those of the PTX ISA 8.8, "Target ISA Notes" of cp.async,
    cp.async.bulk.tensor, wgmma, tcgen05 and mma.
    """

    name: str  # as ptxas and NVRTC spell it
    capability: tuple[int, int]  # compute capability (major, minor)
    shared_bytes_per_block: int  # opt-in maximum, 1 KiB per block already taken off
    shared_bytes_per_sm: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    has_async_copy: bool = True  # cp.async: global to shared without registers
    has_fp8_mma: bool = False  # mma.sync on e4m3 and e5m2
    has_tma: bool = False  # cp.async.bulk.tensor, mbarrier transactions
    has_stmatrix: bool = False  # matrices from registers to shared memory
    has_clusters: bool = False  # thread block clusters, distributed shared memory
    has_wgmma: bool = False  # warpgroup matrix multiply; needs the suffix "a"
    has_tcgen05: bool = False  # tensor memory and its matrix multiply; needs the suffix "a"
    warp_size: int = WARP_SIZE
    max_threads_per_block: int = 1024
    shared_bytes_static: int = 48 * KIB  # beyond this a kernel asks for dynamic shared memory
    registers_per_sm: int = 64 * KIB  # 32-bit registers
    registers_per_block: int = 64 * KIB
    registers_per_thread: int = 255
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)

    @property
    def has_fp8_cvt(self) -> bool:
        """Whether cvt knows e4m3 and e5m2: it does where mma.sync does."""
        return self.has_fp8_mma

    @property
    def max_warps_per_block(self) -> int:
        """The largest `num_warps` a kernel may ask for."""
        return self.max_threads_per_block // self.warp_size

    def __str__(self) -> str:
        return self.name


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("sm_80", (8, 0), 163 * KIB, 164 * KIB, max_threads_per_sm=2048, max_blocks_per_sm=32),
        Target("sm_89", (8, 9), 99 * KIB, 100 * KIB, max_threads_per_sm=1536, max_blocks_per_sm=24, has_fp8_mma=True),
        Target(
            "sm_90a",
            (9, 0),
            227 * KIB,
            228 * KIB,
            max_threads_per_sm=2048,
            max_blocks_per_sm=32,
            has_fp8_mma=True,
            has_tma=True,
            has_stmatrix=True,
            has_clusters=True,
            has_wgmma=True,
        ),
        Target(
            "sm_100a",
            (10, 0),
            227 * KIB,
            228 * KIB,
            max_threads_per_sm=2048,
            max_blocks_per_sm=32,
            has_fp8_mma=True,
            has_tma=True,
            has_stmatrix=True,
            has_clusters=True,
            has_tcgen05=True,
        ),
    )
}

# Code for sm_90a and sm_100a runs on every device of that compute capability, and on no other.
ALIASES = {"sm_90": "sm_90a", "sm_100": "sm_100a"}

DEFAULT_TARGET = TARGETS["sm_90a"]


def target(name: str) -> Target:
    """The target called `name`, or of which `name` is an alias.  Raises CompileError.

    >>> target("sm_90").name
    'sm_90a'
    """
    found = TARGETS.get(ALIASES.get(name, name))
    if found is None:
        raise CompileError(
            "target.arch",
            f"unknown architecture {name!r}, expected one of {', '.join(TARGETS)} or {', '.join(ALIASES)}",
        )
    return found


def target_for_device(capability: tuple[int, int]) -> Target:
    """The target whose cubin runs on a device of compute capability (major, minor).  Raises LaunchError.

    A cubin runs on devices of the same major and an equal or higher minor capability; one for an architecture
    with the suffix "a" only on that very capability.

    >>> target_for_device((9, 0)).name, target_for_device((8, 6)).name
    ('sm_90a', 'sm_80')
    """
    usable = [
        candidate
        for candidate in TARGETS.values()
        if candidate.capability == capability
        or (
            not candidate.name.endswith("a")
            and candidate.capability[0] == capability[0]
            and candidate.capability[1] <= capability[1]
        )
    ]
    if not usable:
        served = ", ".join(f"{known.capability[0]}.{known.capability[1]}" for known in TARGETS.values())
        found = f"{capability[0]}.{capability[1]}"
        raise LaunchError(
            "launch.device",
            f"no target serves a device of compute capability {found}; "
            f"supported are {served} and later minor versions of 8",
        )
    return max(usable, key=lambda candidate: candidate.capability)


def with_feature(feature: str) -> list[str]:
    """The names of the targets of which the field `feature` is true.

    >>> with_feature("has_wgmma")
    ['sm_90a']
    """
    return [name for name, known in TARGETS.items() if getattr(known, feature)]
