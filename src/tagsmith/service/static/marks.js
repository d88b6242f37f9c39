// Evidence in the text itself: a layer behind the text field, with the same letters, whose spans are coloured.
// The service counts characters as Python does, by code points; JavaScript counts UTF-16 units.

export function shade(layer, text, segments, words, strong = []) {
  const letters = Array.from(text);
  const cuts = new Set([0, letters.length]);
  for (const { start, end } of [...segments, ...words, ...strong]) { cuts.add(start); cuts.add(end); }
  const places = [...cuts].filter((place) => place <= letters.length).sort((one, other) => one - other);
  const depth = depths(segments);
  const within = (spans, start, end) => spans.find((one) => one.start <= start && end <= one.end);
  layer.replaceChildren();
  for (let number = 0; number + 1 < places.length; number += 1) {
    const [start, end] = [places[number], places[number + 1]];
    const piece = document.createElement("span");
    piece.textContent = letters.slice(start, end).join("");
    const read = within(segments, start, end);
    if (read) { piece.className = "read"; piece.style.setProperty("--score", depth(read.score).toFixed(3)); }
    if (within(words, start, end)) piece.className = "word";
    if (within(strong, start, end)) piece.className = "word strong";
    layer.append(piece);
  }
  layer.append("\u200b"); // so that a last empty line has its height
}

// 0..1 from the least to the most; where all are nearly equal, all are in the middle
function depths(segments) {
  const scores = segments.map((one) => one.score);
  const [least, most] = [Math.min(...scores), Math.max(...scores)];
  return (score) => (most - least < 0.02 * most ? 0.5 : 0.15 + 0.85 * (score - least) / (most - least));
}

export const spans = (pairs) => (pairs || []).map(([start, end]) => ({ start, end }));
