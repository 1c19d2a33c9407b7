"""The default configuration of matrix products: tiles, warps, stages and splits by shape, dtype and architecture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import log2
from types import MappingProxyType
from typing import Any, NamedTuple

SKINNY = 32  # rows or columns of a result up to which memory limits the product, not arithmetic
SHORTEST_SPLIT = 512  # elements of K; less is not worth a partial result of its own
MOST_SPLITS = 16  # beyond which adding them up takes longer than they save
FEWEST_SPLITS = 4  # of a narrow tile; fewer gain less than adding them up costs
READ_BYTES = 4e6  # from memory in a microsecond
WORTH_SPLITTING = 0.85  # of the time without; what is less than that apart may be the other way round
ADDING_US, ADDED_BYTES = 2.5, 2.5e6  # what the sum of partial results takes: a launch, and bytes in a microsecond
ANY_EXTENT = "ext.any_extent"  # the profile of tiles that are no power of two


class Tile(NamedTuple):
    """A tile of the result, BM rows of BN columns, BK elements of K at a time; ``speed`` relative to the best."""

    BM: int
    BN: int
    BK: int
    num_warps: int
    num_stages: int
    speed: float

    @property
    def is_power(self) -> bool:
        """Whether its columns are a power of two; boxes of others are what instructions take."""
        return self.BN & (self.BN - 1) == 0


class Tiles(NamedTuple):
    """Tiles for one kind of units, and how many elements of the best one, times those of K, a multiprocessor does in a
    microsecond."""

    tiles: tuple[Tile, ...]
    rate: float


# BK is that of 16-bit elements. A larger tile reads less for each product, a smaller one fills the GPU at its end.
# Speeds and rates are those of an H200 in products of many shapes.
WGMMA = Tiles(
    (
        Tile(128, 256, 64, 8, 4, 1.0),
        Tile(128, 192, 64, 8, 4, 0.97),
        Tile(128, 128, 64, 8, 6, 0.95),
        Tile(64, 128, 64, 4, 8, 0.72),
        Tile(64, 64, 128, 4, 6, 0.59),
    ),
    3e6,
)
WGMMA_FLOAT8 = Tiles(
    WGMMA.tiles[1:], WGMMA.rate
)  # whose sums are in registers twice: of a step of the loop, and of all
MMA = Tiles((Tile(128, 128, 32, 8, 4, 1.0), Tile(64, 128, 32, 4, 4, 0.9), Tile(64, 64, 32, 4, 4, 0.65)), 1e6)
FMA = Tiles(
    (
        Tile(128, 256, 16, 8, 3, 1.0),
        Tile(128, 128, 32, 8, 3, 0.97),
        Tile(64, 128, 16, 4, 3, 0.75),
        Tile(64, 64, 16, 4, 3, 0.6),
        Tile(32, 32, 16, 4, 2, 0.4),
    ),
    2e5,
)


@lru_cache(1024)
def configuration(
    M: int,
    N: int,
    K: int,
    batches: int,
    item_bytes: int,
    arch: str,
    multiprocessors: int,
    precision: str,
    float8: bool = False,
    boxes: bool = True,
) -> Mapping[str, Any]:
    """BM, BN, BK, GROUP, SPLITS, num_warps, num_stages, and profile where the tile asks for one: of the product of
    [M, K] and [K, N] with elements of so many bytes. ``precision`` is that of 4-byte elements, ``float8`` says whether
    those of one byte are float8, ``boxes`` whether descriptors describe all matrices."""
    if min(M, N) <= SKINNY and item_bytes < 4:
        return MappingProxyType(_skinny(M, N, K, batches, item_bytes, multiprocessors))
    table = MMA
    if item_bytes == 8 or (item_bytes == 4 and precision == "ieee"):
        table = FMA
    elif arch == "sm_90a":
        table = WGMMA_FLOAT8 if float8 else WGMMA
    depth = K if table is FMA else K * item_bytes / 2  # in elements of 16 bits, which take as long

    def tiles(tile: Tile) -> int:
        return -(-M // tile.BM) * -(-N // tile.BN) * batches

    def microseconds(choice: tuple[Tile, int]) -> float:
        tile, splits = choice
        waves = -(-tiles(tile) * splits // multiprocessors)
        multiplying = waves * tile.BM * tile.BN * depth / splits / (tile.speed * table.rate)
        time = max(multiplying, (M + N) * K * batches * item_bytes / READ_BYTES)
        if splits > 1:
            time += ADDING_US + 4 * M * N * batches * (splits + 1) / ADDED_BYTES
            time /= WORTH_SPLITTING
        return time

    choices = [
        (tile, splits)
        for tile in table.tiles
        if boxes or tile.is_power
        for splits in _splits(K, min(MOST_SPLITS, multiprocessors // tiles(tile)) if batches == 1 else 1)
    ]
    best, splits = min(choices, key=microseconds)
    chosen = {
        "BM": best.BM,
        "BN": best.BN,
        "BK": best.BK if table is FMA else best.BK * 2 // item_bytes,
        "GROUP": _group(best, tiles(best) * splits, multiprocessors),
        "SPLITS": splits,
        "num_warps": best.num_warps,
        "num_stages": best.num_stages,
    }
    return MappingProxyType(chosen | ({} if best.is_power else {"profile": ANY_EXTENT}))


def _splits(K: int, most: int) -> list[int]:
    """Into how many equal parts K may be split, of which no step along it crosses the end."""
    found = [1]
    while 2 * found[-1] <= most and K // (2 * found[-1]) >= SHORTEST_SPLIT and K % (2 * found[-1] * 128) == 0:
        found.append(2 * found[-1])
    return found


def _group(tile: Tile, tiles: int, multiprocessors: int) -> int:
    """So many rows of tiles that those computed at a time are about as many rows as columns of the result, and read the
    least; in plain order where all are computed at a time."""
    return 1 if tiles <= multiprocessors else 1 << round(log2(multiprocessors * tile.BN / tile.BM) / 2)


def narrow(
    M: int, N: int, K: int, batches: int, item_bytes: int, arch: str, multiprocessors: int
) -> dict[str, int] | None:
    """The configuration of a result of many rows and few columns whose operands are boxes: warpgroups read the larger
    operand once, as far ahead as there is room. None where they cannot. K is split, in equal parts, where each
    multiprocessor can have one and there are some for each tile: their sum is a launch of its own."""
    if arch != "sm_90a" or item_bytes != 2 or N > SKINNY:
        return None
    splits = 1
    most = multiprocessors // max(1, -(-M // 64) * batches)
    while batches == 1 and 2 * splits <= most and K // (2 * splits) >= SHORTEST_SPLIT and K % (2 * splits * 64) == 0:
        splits *= 2
    splits = splits if splits >= FEWEST_SPLITS else 1
    tile = {"BM": 64, "BN": SKINNY, "BK": 128, "num_warps": 4, "num_stages": 8}
    return {**tile, "GROUP": 0, "SPLITS": splits}


def _skinny(M: int, N: int, K: int, batches: int, item_bytes: int, multiprocessors: int) -> dict[str, int]:
    """One operand is read once and the other stays in the cache: K is split until there are two tiles each."""
    few, many = (16 if min(M, N) <= 16 else 32), 64
    BM, BN = (few, many) if M <= N else (many, few)
    BK = 256 // item_bytes
    tiles = -(-M // BM) * -(-N // BN) * batches
    wanted = -(-2 * multiprocessors // tiles)
    splits = max(1, min(wanted, K // SHORTEST_SPLIT)) if item_bytes == 2 else 1
    return {"BM": BM, "BN": BN, "BK": BK, "GROUP": 1, "SPLITS": splits, "num_warps": 4, "num_stages": 4}
