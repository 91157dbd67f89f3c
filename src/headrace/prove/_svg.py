"""Charts: a line over time as inline SVG, with bars where faults lasted. Text is escaped; nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Line = Sequence[tuple[float, float]]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 980, 170, 60, 22, 12


def chart(title: str, line: Line, faults: Sequence[tuple[str, float, float]], *, until_s: float, unit: str) -> str:
    """One chart. Faults: name, begin and end in seconds."""
    top = max((value for _, value in line), default=1.0) or 1.0
    span = max(until_s, 1.0)

    def x(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT) * min(max(at_s, 0.0), span) / span

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    bars = "".join(
        f'<rect class="fault" x="{x(begin):.1f}" y="{TOP}" width="{max(x(end) - x(begin), 1.5):.1f}" '
        f'height="{HEIGHT - TOP - BOTTOM}"><title>{escape(name)} at {begin:.1f} s, {end - begin:.1f} s</title></rect>'
        for name, begin, end in faults
    )
    points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line)
    unit_s, short = (60, "min") if span >= 600 else (1, "s")
    marks = "".join(
        f'<text x="{LEFT - 6}" y="{y(top * part) + 4:.1f}" text-anchor="end">{_short(top * part)}</text>'
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y(top * part):.1f}" y2="{y(top * part):.1f}"/>'
        for part in (0.0, 0.5, 1.0)
    )
    times = "".join(
        f'<text x="{x(span * part / 6):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{span * part / 6 / unit_s:.0f} {short}</text>'
        for part in range(7)
    )
    return (
        f"<figure><figcaption>{escape(title)} <small>({escape(unit)})</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
        f'{bars}{marks}{times}<polyline points="{points}"/></svg></figure>'
    )


def _short(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
