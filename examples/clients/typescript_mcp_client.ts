/**
 * Tollgate seen from TypeScript: lists its tools over MCP and calls one.
 *
 *     tollgate serve                                      # in another terminal; the first start shows a client key
 *     npm install @modelcontextprotocol/client@2
 *     TOLLGATE_KEY=… node typescript_mcp_client.ts        # Node.js 22.18 or newer runs TypeScript as it is
 *     TOLLGATE_KEY=… node typescript_mcp_client.ts http://127.0.0.1:7373/mcp
 *
 * Exits 0 when the answer is right, 1 when it is not.
 */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const EXPRESSION = "34817 * 293";
const EXPECTED = "10201381";

const url = new URL(process.argv[2] ?? "http://127.0.0.1:7373/mcp");
const key = process.env["TOLLGATE_KEY"];
if (key === undefined) {
  console.error("set TOLLGATE_KEY to a client key: `tollgate keys create NAME` makes one");
  process.exit(2);
}

// Without `auto` the client shakes hands as it did before 2026-07-28; Tollgate speaks both.
const client = new Client({ name: "example", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
await client.connect(
  new StreamableHTTPClientTransport(url, { requestInit: { headers: { Authorization: `Bearer ${key}` } } }),
);

const { tools } = await client.listTools();
for (const tool of tools) console.log(`${tool.name}: ${tool.description}`);

// A refused or failed call is an answer too: its text says why, and what to do next.
const result = await client.callTool({ name: "calculate", arguments: { expression: EXPRESSION } });
const text = result.content.map((part) => (part.type === "text" ? part.text : "")).join("\n");
console.log(`\n${EXPRESSION} = ${text}`);

await client.close();
process.exit(!result.isError && text.includes(EXPECTED) ? 0 : 1);
