// An authorization server that somebody else wrote (npm: oidc-provider, certified for OpenID Connect), and an MCP server of
// 2026-07-28 that takes its tokens: signed ones, for itself alone, by what they permit. Prints the MCP server's address.
//
// Usage: node logins_server.mjs    from a folder in which oidc-provider is installed

import http from 'node:http';

import { createLocalJWKSet, generateKeyPair, exportJWK, jwtVerify } from 'jose';
import Provider from 'oidc-provider';

const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));

const mcp = http.createServer();
const resource = `http://127.0.0.1:${await listen(mcp)}/mcp`;
const as = http.createServer();
const issuer = `http://127.0.0.1:${await listen(as)}`;

const { privateKey } = await generateKeyPair('ES256', { extractable: true });
const key = { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: 'one' };
const { d: _, ...open } = key;
const keys = createLocalJWKSet({ keys: [open] });

const provider = new Provider(issuer, {
  jwks: { keys: [key] },
  clients: [
    {
      client_id: 'machine',
      client_secret: 'machine-secret-zq-4711',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_basic',
    },
  ],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', 'read', 'write'],
  ttl: { AccessToken: 3600, ClientCredentials: 3600, RefreshToken: 86400, Grant: 86400, Session: 86400, Interaction: 600 },
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, indicator) => {
        if (indicator !== resource) throw new Error(`a token for ${indicator}`);
        return { scope: 'read write', audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };
      },
    },
  },
});
as.on('request', provider.callback());

// Tokens that were given before are refused from then on.
let since = 0;

async function permits(header) {
  try {
    const { payload } = await jwtVerify(header.replace(/^Bearer /, ''), keys, { issuer, audience: resource });
    return payload.iat >= since ? (payload.scope ?? '').split(' ') : null;
  } catch {
    return null;
  }
}

mcp.on('request', async (request, response) => {
  const answer = (status, value, headers = {}) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(value));
  };
  if (request.url === '/.well-known/oauth-protected-resource/mcp') {
    return answer(200, { resource, authorization_servers: [issuer], scopes_supported: ['read'] });
  }
  if (request.url === '/end') {
    since = Math.floor(Date.now() / 1000) + 1;
    return answer(200, since);
  }
  let body = '';
  for await (const piece of request) body += piece;
  const message = JSON.parse(body);
  const metadata = `resource_metadata="${new URL('/.well-known/oauth-protected-resource/mcp', resource)}"`;
  const permitted = await permits(request.headers.authorization ?? '');
  if (!permitted) return answer(401, {}, { 'www-authenticate': `Bearer ${metadata}, scope="read"` });
  if (message.params?.name === 'write' && !permitted.includes('write')) {
    const challenge = `Bearer error="insufficient_scope", ${metadata}, scope="write"`;
    return answer(403, {}, { 'www-authenticate': challenge });
  }
  const tool = (name) => ({ name, inputSchema: { type: 'object' } });
  const result = {
    'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } },
    'tools/list': { tools: [tool('read'), tool('write')] },
    'tools/call': { content: [{ type: 'text', text: `permitted: ${permitted.join(' ')}` }] },
  }[message.method];
  return answer(200, { jsonrpc: '2.0', id: message.id, result });
});

console.log(resource);
process.stdin.on('end', () => process.exit(0)).resume();
