// Lays out a circuit beside the page, which stays responsive.

import { place } from "./layout.js";

addEventListener("message", ({ data: { request, circuit, collapsed } }) => {
  try {
    postMessage({ request, placed: place(circuit, new Set(collapsed)) });
  } catch (error) {
    postMessage({ request, error: String(error) });
  }
});
