// Draws charts with uPlot from the points that are in the page. Without uPlot the numbers of the page say the same.
"use strict";
(() => {
  if (!window.uPlot) return;
  const drawn = new WeakMap();

  function points(text) {
    const pairs = (text || "").split(" ").filter(Boolean).map((pair) => pair.split(":").map(Number));
    return [pairs.map((pair) => pair[0]), pairs.map((pair) => pair[1])];
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function clockTime(seconds) {
    return new Date(1000 * seconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  }

  function draw(element, key, options, data) {
    const before = drawn.get(element);
    if (before && before.key === key) return;
    if (before) before.plot.destroy();
    element.replaceChildren();
    drawn.set(element, { key, plot: new window.uPlot(options, data, element) });
  }

  function drawSpark(element) {
    const data = points(element.dataset.points);
    if (data[0].length < 2) return;
    const line = { stroke: colour("--accent"), width: 1.25, points: { show: false }, fill: colour("--accent-wash") };
    const options = {
      width: element.clientWidth || 96, height: 22, legend: { show: false }, cursor: { show: false }, padding: [2, 0, 2, 0],
      axes: [{ show: false }, { show: false }], scales: { y: { range: (_u, low, high) => [Math.min(0, low), Math.max(high, 1)] } },
      series: [{}, line],
    };
    draw(element, `${line.stroke} ${element.dataset.points}`, options, data);
  }

  function drawChart(figure) {
    const plot = figure.querySelector(".plot");
    const series = [...figure.querySelectorAll(".series")];
    const tables = series.map((one) => points(one.dataset.points));
    if (!tables.length || tables.every((table) => table[0].length < 2)) return;
    const data = window.uPlot.join(tables);
    const colours = ["--accent", "--series-2", "--series-3", "--series-4", "--series-5"].map(colour);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const options = {
      width: Math.max(200, plot.clientWidth), height: 150, legend: { show: series.length > 1 }, cursor: { y: false },
      axes: [{ ...axis, size: 28, values: (_u, times) => times.map(clockTime) }, { ...axis, size: 48 }],
      scales: { y: { range: (_u, low, high) => [Math.min(0, low), Math.max(high * 1.1, 1)] } },
      series: [{}, ...series.map((one, index) => ({
        label: one.dataset.label, stroke: colours[index % colours.length], width: 1.5, points: { show: false }, spanGaps: true,
        fill: series.length === 1 ? colour("--accent-wash") : undefined,
      }))],
    };
    draw(plot, `${colours[0]} ${plot.clientWidth} ${series.map((one) => one.dataset.points).join("|")}`, options, data);
  }

  function drawAll() {
    document.querySelectorAll(".spark").forEach(drawSpark);
    document.querySelectorAll("figure.chart").forEach(drawChart);
  }

  document.addEventListener("headrace:renewed", drawAll);
  document.addEventListener("headrace:theme", drawAll);
  window.addEventListener("resize", drawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  drawAll();
})();
