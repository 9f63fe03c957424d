// The places of nodes and edges: each scope is laid out by itself, and is one box in its outer scope.

import { Graph, layout } from "./vendor/dagre.esm.js";

export const NODE_WIDTH = 178;
export const NODE_HEIGHT = 58;
const HEADER = 30;
const MARGIN = 16;

// A stream that enters or leaves a scope passes its frame at a port, which is a node of the layout.
const PORT = { width: 2, height: 2 };

/** Return boxes by number, edges with their points, and the size of the drawing. */
export function place(circuit, collapsed) {
  const nodes = new Map(circuit.nodes.map((node) => [node.number, node]));
  const members = new Map();
  for (const node of circuit.nodes) {
    if (!members.has(node.scope)) members.set(node.scope, []);
    members.get(node.scope).push(node);
  }
  // The node of `scope` that is or encloses the node with this number.
  const within = (number, scope) => {
    for (let at = number; ; at = nodes.get(at).scope) {
      if (nodes.get(at).scope === scope) return at;
      if (nodes.get(at).scope === "") return null;
    }
  };
  const boxes = new Map();
  const edges = circuit.edges.map((edge, index) => ({ ...edge, index, parts: [] }));

  function placeScope(scope) {
    const graph = new Graph({ multigraph: true });
    // The ranker "network-simplex" takes twice as long, for drawings that are hardly smaller.
    graph.setGraph({
      rankdir: "TB", ranker: "tight-tree",
      nodesep: 22, ranksep: 42, edgesep: 12, marginx: MARGIN, marginy: MARGIN,
    });
    graph.setDefaultEdgeLabel(() => ({}));
    const inner = new Map();
    const read = new Set();
    const reading = new Set();
    for (const node of members.get(scope) ?? []) {
      let size = { width: NODE_WIDTH, height: NODE_HEIGHT };
      if (node.encloses && !collapsed.has(node.number)) {
        const inside = placeScope(node.number);
        inner.set(node.number, inside);
        size = { width: Math.max(inside.width, NODE_WIDTH), height: inside.height + HEADER };
      }
      graph.setNode(node.number, size);
    }
    const connect = (from, to, index, part, back) => {
      const [first, second] = back ? [to, from] : [from, to];
      graph.setEdge(first, second, { index, part, back }, `${index}/${part}`);
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
      const from = within(edge.from, scope);
      const to = within(edge.to, scope);
      if (from !== null && to !== null) {
        if (from !== to) connect(from, to, edge.index, 1, edge.kind === "strict");
      } else if (to !== null && scope !== "") {
        connect(port(`in ${edge.from}`), to, edge.index, 2, false);
      } else if (from !== null && scope !== "") {
        connect(from, port(`out ${edge.from}`), edge.index, 0, false);
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
    return { graph, inner, ...size(graph) };
  }

  function size(graph) {
    const label = graph.graph();
    return { width: label.width, height: label.height };
  }

  function shift(placed, left, top) {
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
      edges[index].parts[part] = back ? shifted.reverse() : shifted;
    }
  }

  const top = placeScope("");
  shift(top, 0, 0);
  const drawn = edges.flatMap(({ from, to, kind, index, parts }) => {
    // Inside of a scope that it leaves, outside, and inside of the scope that it enters.
    const [leaving = [], outside = [], entering = []] = parts;
    const joined = [...leaving.slice(0, -1), ...outside, ...entering.slice(1)];
    if (joined.length < 2) return [];
    if (leaving.length > 0 && outside.length > 0) {
      joined.splice(leaving.length - 1, 1, [leaving.at(-1)[0], outside[0][1]]);
    }
    if (entering.length > 0 && outside.length > 0) {
      const at = joined.length - entering.length;
      joined.splice(at, 1, [entering[0][0], outside.at(-1)[1]]);
    }
    return [{ from, to, kind, index, points: joined }];
  });
  return { boxes, edges: drawn, width: top.width, height: top.height };
}
