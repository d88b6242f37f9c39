// The routes, from /openapi.json.

import { ask, curl } from "./api.js";
import { make } from "./tasks.js";

function parameters(schema) {
  const known = schema.properties.parameters ? schema.properties.parameters.properties : schema.properties;
  const rows = Object.entries(known).map(([name, kind]) => make(
    "tr", {}, make("th", { scope: "row", textContent: name }), make("td", { textContent: kind.type || (kind.enum || []).join(" or ") || "text or list" }),
  ));
  const head = make("tr", {}, make("th", { scope: "col", textContent: "parameter" }), make("th", { scope: "col", textContent: "type" }));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

try {
  const { paths } = await ask("/openapi.json");
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const body = about.requestBody && about.requestBody.content["application/json"].schema;
      const example = body ? curl(path, body.example) : `curl -s ${location.origin}${path}`;
      document.getElementById("routes").append(
        make("h2", {}, make("b", { textContent: method.toUpperCase() }), ` ${path}`),
        make("p", { textContent: about.summary }),
        make("pre", {}, make("code", { textContent: example })),
        ...(body ? [parameters(body)] : []),
      );
    }
  }
} catch (problem) {
  document.getElementById("error").textContent = problem.message;
  document.getElementById("error").hidden = false;
}
