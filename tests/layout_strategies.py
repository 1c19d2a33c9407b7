"""Hypothesis strategies for layouts of every kind over 32 lanes."""

from hypothesis import strategies as st

from refcompiler.layouts import LinearLayout

WARPS = (1, 2, 4, 8)


def random_layout(draw, shape, warp_bits, *, pure):
    """A layout of `shape` over 32 lanes: unit bases (`pure`) or any, with replicas in every input."""
    bits = sum(extent.bit_length() - 1 for extent in shape)
    columns = [1 << bit for bit in range(bits)]
    if not pure:  # an invertible change of basis: add columns to other columns
        for a, b in draw(
            st.lists(st.tuples(st.integers(0, bits - 1), st.integers(0, bits - 1)), max_size=12)
            if bits
            else st.just([])
        ):
            if a != b:
                columns[a] ^= columns[b]
    spare = max(0, 5 + warp_bits - bits) + draw(st.integers(0, 2))
    zeros = [0] * spare if pure else [draw(st.integers(0, (1 << bits) - 1)) for _ in range(spare)]
    columns = draw(st.permutations(columns + zeros))
    return LinearLayout.packed(
        shape, {"lane": columns[:5], "warp": columns[5 : 5 + warp_bits], "register": columns[5 + warp_bits :]}
    )


@st.composite
def layouts(draw, *, pure=True, max_bits=8):
    rank = draw(st.integers(1, 4))
    shape = tuple(1 << draw(st.integers(0, max_bits // rank)) for _ in range(rank))
    return random_layout(draw, shape, draw(st.integers(0, 3)), pure=pure)
