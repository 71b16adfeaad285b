"""A text as a QR code drawn on the server (ISO/IEC 18004): bytes, error correction M, versions 1 to 10."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise, zip_longest

from django.utils.html import format_html
from django.utils.safestring import SafeString

# version -> check bytes a block, and the data bytes of each block
BLOCKS: dict[int, tuple[int, tuple[int, ...]]] = {
    1: (10, (16,)),
    2: (16, (28,)),
    3: (26, (44,)),
    4: (18, (32,) * 2),
    5: (24, (43,) * 2),
    6: (16, (27,) * 4),
    7: (18, (31,) * 4),
    8: (22, (38, 38, 39, 39)),
    9: (22, (36, 36, 36, 37, 37)),
    10: (26, (43, 43, 43, 43, 44)),
}
CENTRES: dict[int, tuple[int, ...]] = {2: (6, 18), 3: (6, 22), 4: (6, 26), 5: (6, 30), 6: (6, 34)}
CENTRES |= {7: (6, 22, 38), 8: (6, 24, 42), 9: (6, 26, 46), 10: (6, 28, 50)}
BYTES = 0b0100  # the mode
QUIET = 4  # modules of white around it
MASKS: tuple[Callable[[int, int], int], ...] = (
    lambda y, x: (y + x) % 2,
    lambda y, x: y % 2,
    lambda y, x: x % 3,
    lambda y, x: (y + x) % 3,
    lambda y, x: (y // 2 + x // 3) % 2,
    lambda y, x: y * x % 2 + y * x % 3,
    lambda y, x: (y * x % 2 + y * x % 3) % 2,
    lambda y, x: ((y + x) % 2 + y * x % 3) % 2,
)
LIKE_A_FINDER = ((1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 1))

Grid = list[list[int]]


def picture(text: str, label: str) -> SafeString:
    """The code as SVG, black on white in every theme; `label` is what a screen reader says. Raises ValueError."""
    grid = modules(text.encode())
    side = len(grid) + 2 * QUIET
    dark = "".join(
        f"M{x + QUIET},{y + QUIET}h1v1h-1z" for y, row in enumerate(grid) for x, bit in enumerate(row) if bit
    )
    return format_html(
        '<svg class="qr" role="img" aria-label="{}" viewBox="0 0 {side} {side}" shape-rendering="crispEdges">'
        '<rect width="{side}" height="{side}" fill="#fff"/><path d="{}" fill="#000"/></svg>',
        label,
        dark,
        side=side,
    )


def modules(data: bytes) -> Grid:
    """Rows of 0 and 1, under the mask that scanners read best. Raises ValueError when it does not fit."""
    version = smallest_for(data)
    bits = list(spread(codewords(data, version)))
    return min((masked(version, bits, mask) for mask in range(len(MASKS))), key=penalty)


def smallest_for(data: bytes) -> int:
    for version, (_, blocks) in BLOCKS.items():
        if len(data) + 2 + (version > 9) <= sum(blocks):
            return version
    raise ValueError(f"{len(data)} bytes do not fit")


# The bytes


def codewords(data: bytes, version: int) -> list[int]:
    """Data and check bytes, taken in turn from every block."""
    check, sizes = BLOCKS[version]
    wide = 16 if version > 9 else 8
    bits = f"{BYTES:04b}{len(data):0{wide}b}" + "".join(f"{byte:08b}" for byte in data) + "0000"
    bits = bits[: sum(sizes) * 8].ljust(-(-len(bits) // 8) * 8, "0")
    filled = [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)][: sum(sizes)]
    filled += [(0xEC, 0x11)[at % 2] for at in range(sum(sizes) - len(filled))]
    rest, blocks = iter(filled), []
    for size in sizes:
        blocks.append([next(rest) for _ in range(size)])
    return [*in_turn(blocks), *in_turn([checked(block, check) for block in blocks])]


def in_turn(blocks: Iterable[Sequence[int]]) -> Iterator[int]:
    return (byte for column in zip_longest(*blocks) for byte in column if byte is not None)


def times(one: int, other: int) -> int:
    """A product in the field of 256 elements, modulo x^8 + x^4 + x^3 + x^2 + 1."""
    product = 0
    while other:
        product ^= one * (other & 1)
        one, other = (one << 1) ^ (0x11D * (one >> 7)), other >> 1
    return product


def checked(block: Sequence[int], count: int) -> list[int]:
    """The Reed-Solomon check bytes of a block."""
    divisor, root = [1], 1
    for _ in range(count):
        shifted = [times(factor, root) for factor in divisor]
        divisor = [one ^ other for one, other in zip([*divisor, 0], [0, *shifted], strict=True)]
        root = times(root, 2)
    rest = [0] * count
    for byte in block:
        lead, rest = byte ^ rest[0], [*rest[1:], 0]
        rest = [one ^ times(lead, other) for one, other in zip(rest, divisor[1:], strict=True)]
    return rest


def spread(codes: Iterable[int]) -> Iterator[int]:
    return (byte >> place & 1 for byte in codes for place in range(7, -1, -1))


# The picture


def masked(version: int, bits: Sequence[int], mask: int) -> Grid:
    fixed = furniture(version, mask)
    side = 17 + 4 * version
    grid = [[fixed.get((y, x), 0) for x in range(side)] for y in range(side)]
    rest = iter(bits)
    for y, x in path(side):
        if (y, x) not in fixed:
            grid[y][x] = next(rest, 0) ^ (MASKS[mask](y, x) == 0)
    return grid


def path(side: int) -> Iterator[tuple[int, int]]:
    """Up and down in columns two wide, from the lower right; the column of the timing pattern is left out."""
    columns = [*range(side - 1, 6, -2), *range(5, 0, -2)]
    for number, right in enumerate(columns):
        rows = range(side) if number % 2 else range(side - 1, -1, -1)
        yield from ((y, x) for y in rows for x in (right, right - 1))


def furniture(version: int, mask: int) -> dict[tuple[int, int], int]:
    """What stands at fixed places: finders, timing, alignment, and what says version and mask."""
    side = 17 + 4 * version
    fixed = {(6, at): (at + 1) % 2 for at in range(side)} | {(at, 6): (at + 1) % 2 for at in range(side)}
    centres = CENTRES.get(version, ())
    corners = {(6, 6), (6, side - 7), (side - 7, 6)}
    for y, x in ((y, x) for y in centres for x in centres if (y, x) not in corners):
        fixed |= rings(y, x, (1, 0, 1), side)
    for y, x in ((3, 3), (3, side - 4), (side - 4, 3)):
        fixed |= rings(y, x, (1, 1, 0, 1, 0), side)
    return fixed | told(mask, side) | (numbered(version, side) if version > 6 else {})


def rings(y: int, x: int, colours: Sequence[int], side: int) -> dict[tuple[int, int], int]:
    """Squares around a centre, the innermost colour first; what lies outside is left out."""
    reach = range(1 - len(colours), len(colours))
    around = {(y + down, x + across): colours[max(abs(down), abs(across))] for down in reach for across in reach}
    return {place: bit for place, bit in around.items() if min(place) >= 0 and max(place) < side}


def remainder(value: int, divisor: int, bits: int) -> int:
    """What a BCH code appends: the rest of a division of polynomials."""
    rest = value << bits
    for place in range(rest.bit_length() - 1, bits - 1, -1):
        if rest >> place & 1:
            rest ^= divisor << (place - bits)
    return rest


def told(mask: int, side: int) -> dict[tuple[int, int], int]:
    """Error correction M (00) and the mask, twice."""
    word = (mask << 10 | remainder(mask, 0b10100110111, 10)) ^ 0b101010000010010
    bits = [word >> place & 1 for place in range(15)]  # the lowest first
    beside = [(8, side - 1 - at) for at in range(8)] + [(side - 7 + at, 8) for at in range(7)]
    corner = [(at, 8) for at in (0, 1, 2, 3, 4, 5, 7, 8)] + [(8, at) for at in (7, 5, 4, 3, 2, 1, 0)]
    return {**dict(zip(corner, bits, strict=True)), **dict(zip(beside, bits, strict=True)), (side - 8, 8): 1}


def numbered(version: int, side: int) -> dict[tuple[int, int], int]:
    word = version << 12 | remainder(version, 0b1111100100101, 12)
    places = {(at // 3, side - 11 + at % 3): word >> at & 1 for at in range(18)}
    return places | {(x, y): bit for (y, x), bit in places.items()}


def penalty(grid: Grid) -> int:
    """How hard a scanner finds it: long runs, squares, what looks like a finder, too much of one colour."""
    lines = [*grid, *(list(column) for column in zip(*grid, strict=True))]
    runs = (len(list(run)) for line in lines for _, run in groupby(line))
    squares = sum(
        len({*upper[x : x + 2], *lower[x : x + 2]}) == 1
        for upper, lower in pairwise(grid)
        for x in range(len(grid) - 1)
    )
    finders = sum(tuple(line[at : at + 11]) in LIKE_A_FINDER for line in lines for at in range(len(line) - 10))
    dark = sum(chain.from_iterable(grid)) * 100 / len(grid) ** 2
    return sum(run - 2 for run in runs if run > 4) + 3 * squares + 40 * finders + 10 * int(abs(dark - 50) / 5)
