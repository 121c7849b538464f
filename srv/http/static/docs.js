// The document of REST as a page: all calls by group, what they take and give, and a form to try
// each. What is shown is put in as text, never as markup; requests go to this daemon only, with the
// cookie of this page.

const SHOWN_BYTES_MAX = 64 * 1024;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made[key] = value;
  made.append(...children);
  return made;
}

function row(cell, ...texts) {
  return element("tr", {}, ...texts.map((text) => element(cell, {}, text)));
}

function table(headings, rows) {
  const body = rows.map((texts) => row("td", ...texts));
  return element("table", {}, element("thead", {}, row("th", ...headings)),
    element("tbody", {}, ...body));
}

class Page {
  constructor(api) {
    this.api = api;
  }

  // What a schema says, with its name looked up.
  resolve(schema) {
    const name = schema?.$ref?.split("/").pop();
    return name ? this.api.components.schemas[name] : schema ?? {};
  }

  // A schema in a few words, as `text`, `list of Message`, `active | completed`.
  words(schema) {
    if (schema?.$ref) return schema.$ref.split("/").pop();
    const inner = schema ?? {};
    if (inner.enum) return inner.enum.join(" | ");
    if (inner.anyOf) return inner.anyOf.map((each) => this.words(each)).join(" or ");
    if (inner.type === "array") return `list of ${this.words(inner.items)}`;
    const kinds = [inner.type ?? "any"].flat().join(" or ");
    const bounds = inner.minimum === undefined ? "" : ` ${inner.minimum} to ${inner.maximum}`;
    return kinds + bounds;
  }

  fields(schema) {
    const found = this.resolve(schema);
    const required = new Set(found.required ?? []);
    const rows = Object.entries(found.properties ?? {}).map(([name, inner]) => [
      name, this.words(inner), required.has(name) ? "required" : "", inner.description ?? "",
    ]);
    return rows.length ? table(["field", "is", "", ""], rows) : "";
  }

  parameters(operation) {
    if (!operation.parameters.length) return "";
    return table(["parameter", "in", "is", ""], operation.parameters.map((each) => [
      each.name, each.in, this.words(each.schema), each.description ?? each.schema.description ?? "",
    ]));
  }

  responses(operation) {
    return table(["status", "", "gives"], Object.entries(operation.responses).map(
      ([status, { description, content }]) => [
        status, description, content ? this.words(Object.values(content)[0].schema) : "",
      ]));
  }

  call(path, method, operation) {
    const schema = operation.requestBody?.content["application/json"].schema;
    const title = element("summary", {},
      element("span", { className: "method" }, method.toUpperCase()),
      element("code", {}, path),
      element("span", { className: "about" }, operation.summary));
    const parts = [title, this.parameters(operation)];
    if (schema) parts.push(element("p", {}, `Body: ${this.words(schema)}`), this.fields(schema));
    parts.push(this.responses(operation), this.form(path, method, operation, schema));
    return element("details", { id: operation.operationId }, ...parts);
  }

  form(path, method, operation, schema) {
    const inputs = operation.parameters.filter((each) => each.in !== "header").map((each) => {
      const input = element("input", { name: each.name });
      return { each, input, label: element("label", {}, each.name, input) };
    });
    const example = this.resolve(schema).examples?.[0];
    const body = schema && element("textarea", {
      rows: 6, value: JSON.stringify(example ?? {}, null, 2), ariaLabel: "body",
    });
    const out = element("pre", { hidden: true });
    const button = element("button", { type: "submit" }, "Try it");
    const form = element("form", {}, ...inputs.map(({ label }) => label), body ?? "", button, out);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      out.hidden = false;
      out.textContent = "…";
      try {
        out.textContent = await tried(target(path, inputs), method.toUpperCase(), body?.value);
      } catch (error) {
        out.textContent = String(error);
      }
    });
    return form;
  }

  show() {
    document.getElementById("about").textContent = this.api.info.description;
    const main = document.getElementById("calls");
    main.replaceChildren();
    for (const { name, description } of this.api.tags) {
      const calls = Object.entries(this.api.paths).flatMap(([path, methods]) =>
        Object.entries(methods)
          .filter(([, operation]) => operation.tags.includes(name))
          .map(([method, operation]) => this.call(path, method, operation)));
      main.append(element("h2", {}, name), element("p", {}, description), ...calls);
    }
    // A link to one call opens it.
    const chosen = document.getElementById(location.hash.slice(1));
    if (chosen instanceof HTMLDetailsElement) chosen.open = true;
  }
}

function target(path, inputs) {
  const query = new URLSearchParams();
  let found = path;
  for (const { each, input } of inputs) {
    if (each.in === "path") found = found.replace(`{${each.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.set(each.name, input.value);
  }
  return query.size ? `${found}?${query}` : found;
}

async function tried(address, method, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(address, { method, headers, body });
  const lines = [`${method} ${address}`, `${response.status} ${response.statusText}`, ""];
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  // A stream of events has no end: what is there now is shown.
  const isStream = (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
  while (reader && text.length < SHOWN_BYTES_MAX) {
    const late = isStream && new Promise((done) => setTimeout(done, 1000, { done: true }));
    const { done, value } = await (late ? Promise.race([reader.read(), late]) : reader.read());
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  await reader?.cancel();
  if (text.length > SHOWN_BYTES_MAX) text = `${text.slice(0, SHOWN_BYTES_MAX)}\n… and more`;
  return lines.join("\n") + pretty(text);
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const response = await fetch("/api/openapi.json");
new Page(await response.json()).show();
