// The TypeScript SDKs against a running `tollgate serve`: version 2 in both eras, and version 1, which shakes hands.
// Usage: TOLLGATE_KEY=… node typescript_clients.mjs URL

import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const url = new URL(process.argv[2]);
const options = { requestInit: { headers: { Authorization: `Bearer ${process.env.TOLLGATE_KEY}` } } };
const info = { name: "test", version: "1.0.0" };

async function works(name, client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.ok(tools.some((tool) => tool.name === "calculate") && tools.every((tool) => tool.outputSchema));
  assert.ok(!tools.some((tool) => tool.name === "write_file"), "a reader does not see what writes");
  const calls = Array.from({ length: 30 }, (_, n) =>
    client.callTool({ name: "calculate", arguments: { expression: `${n} * ${n}` } }),
  );
  const texts = (await Promise.all(calls)).map((result) => result.content[0].text);
  assert.deepEqual(texts, Array.from({ length: 30 }, (_, n) => String(n * n)));
  const read = await client.callTool({ name: "read_file", arguments: { path: "北京.txt" } });
  assert.match(read.content[0].text, /你好，世界/);
  const refused = await client.callTool({ name: "calculate", arguments: { expr: "1" } });
  assert.equal(refused.isError, true);
  assert.equal(refused.structuredContent.error, "invalid_arguments");
  await client.close();
  console.log(`ok    ${name}`);
}

const negotiated = (mode) => new Client(info, { versionNegotiation: { mode } });
await works("TypeScript SDK 2, stateless", negotiated("auto"), new StreamableHTTPClientTransport(url, options));
await works("TypeScript SDK 2, by handshake", negotiated("legacy"), new StreamableHTTPClientTransport(url, options));
await works("TypeScript SDK 1", new Client1(info), new Transport1(url, options));
