"""Charts: a line over time as inline SVG, with bars where faults lasted."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

Line = Sequence[tuple[float, float]]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 980, 170, 60, 22, 12


def chart(title: str, line: Line, faults: Sequence[tuple[str, float, float]], *, until_s: float, unit: str) -> Element:
    """One chart. Faults: name, begin and end in seconds."""
    top = max((value for _, value in line), default=1.0) or 1.0
    span = max(until_s, 1.0)

    def x(at_s: float) -> float:
        return LEFT + (WIDTH - LEFT) * min(max(at_s, 0.0), span) / span

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    figure = Element("figure")
    caption = SubElement(figure, "figcaption")
    caption.text = f"{title} "
    SubElement(caption, "small").text = f"({unit})"
    svg = SubElement(figure, "svg", {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-label": title})
    for name, begin, end in faults:
        box = {"x": x(begin), "y": TOP, "width": max(x(end) - x(begin), 1.5), "height": HEIGHT - TOP - BOTTOM}
        bar = SubElement(svg, "rect", {"class": "fault"} | {side: f"{value:.1f}" for side, value in box.items()})
        SubElement(bar, "title").text = f"{name} at {begin:.1f} s, {end - begin:.1f} s"
    for part in (0.0, 0.5, 1.0):
        at = f"{y(top * part):.1f}"
        _text(svg, LEFT - 6, y(top * part) + 4, "end", _short(top * part))
        SubElement(svg, "line", {"class": "axis", "x1": str(LEFT), "x2": str(WIDTH), "y1": at, "y2": at})
    unit_s, short = (60, "min") if span >= 600 else (1, "s")
    for part in range(7):
        _text(svg, x(span * part / 6), HEIGHT - 6, "middle", f"{span * part / 6 / unit_s:.0f} {short}")
    SubElement(svg, "polyline", {"points": " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line)})
    return figure


def _text(svg: Element, x: float, y: float, anchor: str, text: str) -> None:
    SubElement(svg, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor}).text = text


def _short(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 10_000 else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
