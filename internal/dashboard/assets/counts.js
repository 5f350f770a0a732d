// Sums of cells, as the summary has them: one for each policy, namespace and severity.

import { statuses } from "./filter.js";

export function none() {
  return { pass: 0, fail: 0, warn: 0, error: 0, skip: 0 };
}

export function add(into, counts) {
  for (const s of statuses) into[s] += counts[s];
  return into;
}

export const judged = (counts) => counts.pass + counts.fail + counts.warn + counts.error;

// compliance is the share of evaluated results that pass, in percent with one decimal, rounded down so that 100 means all;
// null when nothing was evaluated.
export function compliance(counts) {
  const all = judged(counts);
  return all === 0 ? null : Math.floor((1000 * counts.pass) / all) / 10;
}

// sumBy adds cells up by the name that of gives them.
export function sumBy(cells, of) {
  const sums = new Map();
  for (const cell of cells) {
    const name = of(cell);
    let line = sums.get(name);
    if (!line) sums.set(name, (line = { name, severity: cell.severity, counts: none() }));
    add(line.counts, cell);
  }
  return [...sums.values()];
}

// worse orders by what is wrong: failures, then errors, then warnings, then by name.
export function worse(a, b) {
  for (const s of ["fail", "error", "warn"]) {
    if (a.counts[s] !== b.counts[s]) return b.counts[s] - a.counts[s];
  }
  return byName(a, b);
}

export const byName = (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
