// One of the TypeScript SDKs against Tollgate: lists, calls, and prints the answer.
// Usage: node compatibility_clients.mjs 1|2 legacy|auto stdio|HTTP|HTTP+SSE|WebSocket KEY TARGET…

import assert from "node:assert/strict";

const [version, mode, transport, key, first, ...rest] = process.argv.slice(2);
const info = { name: "test", version: "1.0.0" };
const options = { requestInit: { headers: { Authorization: `Bearer ${key}` } } };

async function parts() {
  if (version === "1") {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js");
    const { WebSocketClientTransport } = await import("@modelcontextprotocol/sdk/client/websocket.js");
    const client = new Client(info);
    return { client, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport, WebSocketClientTransport };
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  return { client: new Client(info, { versionNegotiation: { mode } }), StdioClientTransport, StreamableHTTPClientTransport };
}

const { client, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport, WebSocketClientTransport } =
  await parts();
const ways = {
  stdio: () => new StdioClientTransport({ command: first, args: rest }),
  HTTP: () => new StreamableHTTPClientTransport(new URL(first), options),
  WebSocket: () => new WebSocketClientTransport(new URL(first)),
  "HTTP+SSE": () => new SSEClientTransport(new URL(first), options),
};
await client.connect(ways[transport]());
const { tools } = await client.listTools();
assert.ok(tools.some((tool) => tool.name === "calculate"));
const result = await client.callTool({ name: "calculate", arguments: { expression: "34817 * 293" } });
console.log(result.content[0].text);
await client.close();
