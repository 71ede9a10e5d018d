// The picture in "LAS explained": window, prior and margin of a small stream.
(() => {
  "use strict";
  const root = document.getElementById("las-explorer");
  if (!root) return;

  const CLASSES = ["A", "B", "C", "D"];
  const STEPS = 40;
  const HALF = 8; // incoming rows of a step, and replayed ones

  // Labels of the rows of each step: 20 steps of A and B, 20 of C and D, and a reservoir of 40.
  function makeStream() {
    let seed = 7;
    const draw = (n) => {
      seed = (seed * 16807) % 2147483647;
      return seed % n;
    };
    const memory = [];
    let offered = 0;
    return Array.from({ length: STEPS }, (_, step) => {
      const first = step < STEPS / 2 ? 0 : 2;
      const incoming = Array.from({ length: HALF }, () => first + draw(2));
      const replayed = memory.length
        ? Array.from({ length: HALF }, () => memory[draw(memory.length)])
        : [];
      for (const label of incoming) {
        offered += 1;
        if (memory.length < 40) memory.push(label);
        else {
          const slot = draw(offered);
          if (slot < 40) memory[slot] = label;
        }
      }
      return [...incoming, ...replayed];
    });
  }

  const stream = makeStream();
  const control = (name) => document.getElementById(`las-${name}`);
  const number = (name) => Number(control(name).value);

  function prior(step, window) {
    const rows = stream.slice(Math.max(0, step - window), step).flat();
    return CLASSES.map((_, index) => rows.filter((label) => label === index).length / rows.length);
  }

  const show = (value, digits = 2) => value.toFixed(digits).replace("-", "−");

  function bars(shares, tau) {
    const cells = CLASSES.map((name, index) => {
      const x = 10 + index * 150;
      const height = Math.round(shares[index] * 100);
      const added = shares[index] ? show(tau * Math.log(shares[index])) : "absent";
      const colour = index < 2 ? "var(--old)" : "var(--new)";
      return `<rect x="${x}" y="${120 - height}" width="60" height="${height}" fill="${colour}"/>
        <text x="${x + 66}" y="100">${name}: ${Math.round(shares[index] * 100)} %</text>
        <text x="${x + 66}" y="118">τ·log π: ${added}</text>`;
    });
    return `<svg viewBox="0 0 620 125" role="img" aria-label="Class shares in the window">
      <text x="10" y="14">shares in the window, and what is added to each logit</text>
      ${cells.join("")}</svg>`;
  }

  // Two bell curves of spread 1 around -1 (B, old) and +1 (C, new): the logits' difference is
  // 2x + (1 - tau) log(pi_C / pi_B), so the boundary lies where that is zero.
  const boundary = (odds, tau) => (-(1 - tau) * odds) / 2;

  function curves(at) {
    const X = (x) => 310 + x * 75;
    const bell = (mean) =>
      Array.from({ length: 81 }, (_, i) => -4 + i / 10)
        .map((x) => `${X(x).toFixed(1)},${(130 - 100 * Math.exp(-((x - mean) ** 2) / 2)).toFixed(1)}`)
        .join(" ");
    const line =
      at === null
        ? ""
        : `<line x1="${X(at)}" x2="${X(at)}" y1="20" y2="130" stroke="currentColor" stroke-width="3"/>
           <text x="${X(at) + 6}" y="32">boundary</text>`;
    return `<svg viewBox="0 0 620 150" role="img" aria-label="Boundary between B and C">
      <polyline points="${bell(-1)}" fill="none" stroke="var(--old)" stroke-width="3"/>
      <polyline points="${bell(1)}" fill="none" stroke="var(--new)" stroke-width="3"/>
      <line x1="${X(0)}" x2="${X(0)}" y1="30" y2="130" stroke="currentColor" stroke-dasharray="4 4"/>
      <text x="${X(-1) - 60}" y="146">B, old</text><text x="${X(1) + 20}" y="146">C, new</text>
      ${line}</svg>`;
  }

  function words(shares, tau, odds, at) {
    if (!shares[1] || !shares[2]) {
      const absent = shares[1] ? "C" : "B";
      return tau
        ? `${absent} is not in the window. LAS leaves its weights alone.`
        : `${absent} is not in the window. Plain softmax pushes it down in every row.`;
    }
    const margin = show(tau * odds);
    const place =
      Math.abs(at) < 0.05 ? "in the middle" : at < 0 ? "in the old class" : "in the new class";
    return `C gets a head start of ${margin} over B while training. The boundary ends up ${place}.`;
  }

  function draw() {
    const [step, window, tau] = [number("step"), number("window"), number("tau")];
    for (const name of ["step", "window"]) control(`${name}-value`).value = number(name);
    control("tau-value").value = tau.toFixed(1);
    const shares = prior(step, window);
    const both = shares[1] > 0 && shares[2] > 0;
    const odds = both ? Math.log(shares[2] / shares[1]) : 0;
    const at = both ? boundary(odds, tau) : null;
    control("bars").innerHTML = bars(shares, tau);
    control("boundary").innerHTML = curves(at);
    control("words").textContent = words(shares, tau, odds, at);
  }

  let timer = null;
  function stop() {
    clearInterval(timer);
    timer = null;
    control("play").textContent = "Play";
  }
  function play() {
    if (timer) return stop();
    control("play").textContent = "Pause";
    if (number("step") >= STEPS) control("step").value = 1;
    timer = setInterval(() => {
      control("step").value = number("step") + 1;
      draw();
      if (number("step") >= STEPS) stop();
    }, 350);
  }

  for (const name of ["step", "window", "tau"]) control(name).addEventListener("input", draw);
  control("play").addEventListener("click", play);
  draw();
})();
