// The places of nodes and edges: each scope is laid out by itself, and is one box in its outer scope.

import { Graph, layout } from "./vendor/dagre.esm.js";

export const NODE_WIDTH = 190;
export const NODE_HEIGHT = 58;
const HEADER = 30;
const MARGIN = 16;
const RANKS = 42;

// A stream that enters or leaves a scope passes its frame at a port, which is a node of the layout.
const PORT = { width: 2, height: 2 };

/** Return boxes by number, edges with their points, and the size of the drawing. */
export function place(circuit, collapsed) {
  const nodes = new Map(circuit.nodes.map((node) => [node.id, node]));
  const members = new Map();
  for (const node of circuit.nodes) {
    if (!members.has(node.frame)) members.set(node.frame, []);
    members.get(node.frame).push(node);
  }
  // The node of `scope` that is or encloses the node with this number.
  const within = (number, scope) => {
    for (let at = number; ; at = nodes.get(at).frame) {
      if (nodes.get(at).frame === scope) return at;
      if (nodes.get(at).frame === "") return null;
    }
  };
  const boxes = new Map();
  const edges = circuit.edges.map((edge, index) => ({ ...edge, index, outside: null, leaving: [], entering: [] }));

  function placeScope(scope, depth) {
    const graph = new Graph({ multigraph: true });
    // The ranker "network-simplex" takes twice as long, for drawings that are hardly smaller.
    graph.setGraph({
      rankdir: "TB", ranker: "tight-tree",
      nodesep: 22, ranksep: RANKS, edgesep: 12, marginx: MARGIN, marginy: MARGIN,
    });
    graph.setDefaultEdgeLabel(() => ({}));
    const inner = new Map();
    const read = new Set();
    const reading = new Set();
    for (const node of members.get(scope) ?? []) {
      let size = { width: NODE_WIDTH, height: NODE_HEIGHT };
      if (node.encloses && !collapsed.has(node.id)) {
        const inside = placeScope(node.id, depth + 1);
        inner.set(node.id, inside);
        size = { width: Math.max(inside.width, NODE_WIDTH), height: inside.height + HEADER };
      }
      graph.setNode(node.id, size);
    }
    const connect = (from, to, index, part, back = false) => {
      const [first, second] = back ? [to, from] : [from, to];
      graph.setEdge(first, second, { index, part, back }, String(index));
      read.add(first);
      reading.add(second);
    };
    const ports = new Set();
    const port = (name) => {
      graph.setNode(name, { ...PORT });
      ports.add(name);
      return name;
    };
    for (const edge of edges) {
      const from = within(edge.source, scope);
      const to = within(edge.target, scope);
      if (from !== null && to !== null) {
        if (from !== to) connect(from, to, edge.index, "outside", edge.kind === "delayed");
      } else if (to !== null && scope !== "") {
        connect(port(`in ${edge.source}`), to, edge.index, "entering");
      } else if (from !== null && scope !== "") {
        connect(from, port(`out ${edge.source}`), edge.index, "leaving");
      }
    }
    // The ports are at the top and at the bottom, so everything else is between a source and a sink.
    if (ports.size > 0) {
      graph.setNode("source", { ...PORT });
      graph.setNode("sink", { ...PORT });
      for (const name of graph.nodes()) {
        if (name === "source" || name === "sink") continue;
        const weight = ports.has(name) ? 8 : 0;
        if (!reading.has(name)) graph.setEdge("source", name, { weight }, "frame");
        if (!read.has(name)) graph.setEdge(name, "sink", { weight }, "frame");
      }
    }
    layout(graph);
    const { width, height } = graph.graph();
    const spare = ports.size > 0 ? RANKS + PORT.height : 0; // the ranks of source and sink are empty
    return { graph, inner, depth, spare, width, height: height - 2 * spare };
  }

  function shift(placed, left, above) {
    const top = above - placed.spare;
    for (const number of placed.graph.nodes()) {
      const { x, y, width, height } = placed.graph.node(number);
      if (!nodes.has(number)) continue;
      const box = { x: left + x - width / 2, y: top + y - height / 2, width, height };
      boxes.set(number, box);
      const inside = placed.inner.get(number);
      if (inside) shift(inside, box.x + (width - inside.width) / 2, box.y + HEADER);
    }
    for (const key of placed.graph.edges()) {
      const { index, part, back, points } = placed.graph.edge(key);
      if (index === undefined) continue;
      const shifted = points.map((point) => [left + point.x, top + point.y]);
      if (part === "outside") edges[index].outside = back ? shifted.reverse() : shifted;
      else edges[index][part][placed.depth] = shifted;
    }
  }

  const top = placeScope("", 0);
  shift(top, 0, 0);
  const drawn = edges.flatMap(({ source, target, kind, label, index, outside, leaving, entering }) => {
    if (outside === null) return [];
    // Out of the scopes around the source, innermost first, and into those around the target.
    const parts = [...leaving.filter(Boolean).reverse(), outside, ...entering.filter(Boolean)];
    const points = parts[0].slice(0, parts.length > 1 ? -1 : undefined);
    parts.slice(1).forEach((part, number) => {
      // A frame is passed at a port, whose place across the frame the inner part knows.
      const [before, after] = [parts[number].at(-1), part[0]];
      const out = number < leaving.filter(Boolean).length;
      points.push(out ? [before[0], after[1]] : [after[0], before[1]]);
      points.push(...part.slice(1, number + 2 < parts.length ? -1 : undefined));
    });
    return [{ source, target, kind, label, index, points }];
  });
  return { boxes, edges: drawn, width: top.width, height: top.height };
}
