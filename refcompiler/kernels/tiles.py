"""The default configuration of matrix products: tiles, warps, stages and splits by shape, dtype and architecture."""

from __future__ import annotations

from math import log2
from typing import NamedTuple

SKINNY = 32  # rows or columns of a result up to which memory limits the product, not arithmetic
SHORTEST_SPLIT = 512  # elements of K; less is not worth a partial result of its own
FEWEST_SPLITS = 4  # of a tile that warpgroups compute; fewer gain less than adding them up costs


class Tile(NamedTuple):
    """A tile of the result, BM rows of BN columns, BK elements of K at a time; ``speed`` relative to the best."""

    BM: int
    BN: int
    BK: int
    num_warps: int
    num_stages: int
    speed: float


# BK is that of 16-bit elements. A larger tile reads less for each product, a smaller one fills the GPU at its end.
WGMMA = (
    Tile(128, 256, 64, 8, 4, 1.0),
    Tile(128, 128, 64, 8, 6, 0.85),
    Tile(64, 128, 64, 4, 8, 0.6),
    Tile(64, 64, 64, 4, 8, 0.4),
)
WGMMA_FLOAT8 = WGMMA[1:]  # whose sums are in registers twice: those of a step of the loop, and all
MMA = (Tile(128, 128, 32, 8, 4, 1.0), Tile(64, 128, 32, 4, 4, 0.9), Tile(64, 64, 32, 4, 4, 0.65))
FMA = (Tile(128, 128, 16, 8, 2, 1.0), Tile(64, 64, 16, 4, 2, 0.7), Tile(32, 32, 16, 4, 2, 0.4))


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
) -> dict[str, int]:
    """BM, BN, BK, GROUP, SPLITS, num_warps and num_stages of the product of [M, K] and [K, N] with elements of so many
    bytes. ``precision`` is that of 4-byte elements, ``float8`` says whether those of one byte are float8."""
    if min(M, N) <= SKINNY and item_bytes < 4:
        return _skinny(M, N, K, batches, item_bytes, multiprocessors)
    table: tuple[Tile, ...] = MMA
    if item_bytes == 8 or (item_bytes == 4 and precision == "ieee"):
        table = FMA
    elif arch == "sm_90a":
        table = WGMMA_FLOAT8 if float8 else WGMMA

    def tiles(tile: Tile) -> int:
        return -(-M // tile.BM) * -(-N // tile.BN) * batches

    def time(tile: Tile) -> float:
        return -(-tiles(tile) // multiprocessors) * tile.BM * tile.BN / tile.speed

    best = min(table, key=time)
    depth = best.BK if table is FMA else best.BK * 2 // item_bytes
    return {
        "BM": best.BM,
        "BN": best.BN,
        "BK": depth,
        "GROUP": _group(best, tiles(best), multiprocessors),
        "SPLITS": 1,
        "num_warps": best.num_warps,
        "num_stages": best.num_stages,
    }


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
