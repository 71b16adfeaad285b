"""A text as a QR code, drawn on the server."""

import segno
from django.utils.html import format_html
from django.utils.safestring import SafeString

QUIET = 4  # modules of white around it


def picture(text: str, label: str) -> SafeString:
    """The code as SVG, black on white in every theme; `label` is what a screen reader says. Raises ValueError."""
    grid = segno.make_qr(text, error="m").matrix
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
