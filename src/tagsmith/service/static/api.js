// Requests to the service this page came from; every failure is an Error with a sentence for people.

let token = "";
try { token = sessionStorage.getItem("tagsmith-token") || ""; } catch { /* no storage, no memory of it */ }

export class Unauthorised extends Error {}

export function useToken(given) {
  token = given;
  try { sessionStorage.setItem("tagsmith-token", given); } catch { /* for this page only */ }
}

export async function ask(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = body === undefined ? { headers, signal } : {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  };
  let response;
  try {
    response = await fetch(path, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("The service does not answer. Is it still running?");
  }
  const found = await response.json().catch(() => ({ error: `The service answered ${response.status}.` }));
  if (response.status === 401) throw new Unauthorised(found.error);
  if (!response.ok) throw new Error(found.error);
  return found;
}

export function curl(path, body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const secret = token ? " -H \"Authorization: Bearer $TAGSMITH_TOKEN\"" : "";
  return `curl -s ${location.origin}${path}${secret} -H 'Content-Type: application/json' -d '${quoted}'`;
}
