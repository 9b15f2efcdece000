import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import * as sdk2 from '@modelcontextprotocol/client'
import { PrivateKeyJwtProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { createMachineKey, MachineClient, type MachineJwk } from 'express-did-auth-client/machine'
import { RelayClient } from 'express-did-auth-client/relay'
import { VaultClient } from 'express-did-auth-client/vault'
import { decodeJwt } from 'jose'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { systemClock } from '../../src/time.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { expectClientError, startServer } from '../support/fixtures/client-error.js'
import { root } from '../support/fixtures/documents.js'
import { startTestRelay } from '../support/servers/relay-app.js'
import { ORDERS, startIssuer } from '../support/servers/resource-tokens.js'
import { runExample, setEnvironment } from '../support/servers/run-script.js'
import { testVault } from '../support/servers/vault-app.js'

const [RELAY, VAULT] = ['https://relay.example', 'https://vault.example']

/** Machine whose DID is a did:jwk. */
interface Machine {
  did: string
  privateKey: MachineJwk
}

async function createJwkMachine(): Promise<Machine> {
  const { privateKey } = await createMachineKey()
  const { d: _d, ...publicKey } = privateKey
  return { did: `did:jwk:${Buffer.from(JSON.stringify(publicKey)).toString('base64url')}`, privateKey }
}

const importKey = ({ privateKey }: Machine) =>
  crypto.subtle.importKey('jwk', privateKey as object, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign'])

const startService = () =>
  startIssuer({ machineLogin: true, resources: [ORDERS, RELAY, VAULT], clock: systemClock, discovery: true })

let machine: Machine

beforeAll(async () => {
  machine = await createJwkMachine()
})

beforeEach(() => {
  for (const name of ['info', 'warn'] as const) jest.spyOn(console, name).mockImplementation(() => undefined)
})

afterAll(() => {
  for (const name of ['@modelcontextprotocol/sdk', '@modelcontextprotocol/client', 'openid-client', 'oauth4webapi']) {
    const file = join(root, 'test/slow/node_modules', name, 'package.json')
    const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string }
    process.stdout.write(`${name} ${version}\n`)
  }
})

/** Returns the claims that show for whom a token is. */
function readClaims(token: string): object {
  const { sub, client_id, aud, sid } = decodeJwt(token)
  return { sub, client_id, aud, sid }
}
const expected = (): object => ({ sub: machine.did, client_id: machine.did, aud: ORDERS, sid: undefined })

describe('published clients, unmodified', () => {
  it('openid-client gets a token with the metadata of RFC 8414', async () => {
    const { url } = await startService()
    const config = await openid.discovery(
      new URL(url),
      machine.did,
      undefined,
      openid.PrivateKeyJwt(await importKey(machine)),
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- the service of this test has no certificate
      { algorithm: 'oauth2', execute: [openid.allowInsecureRequests] }
    )
    const tokens = await openid.clientCredentialsGrant(config, { resource: ORDERS })
    expect(tokens).toMatchObject({ token_type: 'bearer', expires_in: 300 })
    expect(readClaims(tokens.access_token)).toEqual(expected())
  })

  it('oauth4webapi gets a token', async () => {
    const { url } = await startService()
    const issuer = new URL(url)
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the service of this test has no certificate
    const insecure = { [oauth.allowInsecureRequests]: true }
    const found = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...insecure })
    const server = await oauth.processDiscoveryResponse(issuer, found)
    const client = { client_id: machine.did }
    const key = oauth.PrivateKeyJwt(await importKey(machine))
    const form = new URLSearchParams({ resource: ORDERS })
    const response = await oauth.clientCredentialsGrantRequest(server, client, key, form, insecure)
    const tokens = await oauth.processClientCredentialsResponse(server, client, response)
    expect(readClaims(tokens.access_token)).toEqual(expected())
  })
})

const sdk1 = { PrivateKeyJwtProvider, Client, StreamableHTTPClientTransport }
/** Version 1 and version 2 of the MCP SDK: the example's server, and the client. */
const SDKS = [
  { example: 'mcp-server-sdk1.ts', sdk: 1, codeField: 'errorCode', ...sdk1 },
  { example: 'mcp-server.ts', sdk: 2, codeField: 'code', ...sdk2 }
]

describe.each(SDKS)('examples/$example, and a client of version $sdk', ({ example, ...sdk }) => {
  const load = (): Promise<unknown> => import(`${join(root, 'examples', example)}?${Math.random()}`)

  /** Starts the example, and returns a client of MCP that logs in with a key. */
  async function connect({ did, privateKey }: Machine, MACHINES = '') {
    afterTest(setEnvironment({ MACHINES }))
    const example = await runExample(load)
    afterTest(example.stop)
    if (!example.server.listening) await once(example.server, 'listening')
    const port = String((example.server.address() as AddressInfo).port)
    const paths: string[] = []
    /** Sends requests for the port of the example to the port that this test gave it. */
    const fetchAtPort = (url: string | URL, init?: RequestInit): Promise<Response> => {
      paths.push(new URL(url).pathname)
      return fetch(String(url).replace('//localhost:3000', `//127.0.0.1:${port}`), init)
    }
    const authProvider = new sdk.PrivateKeyJwtProvider({
      ...{ clientId: did, privateKey: privateKey, algorithm: 'ES256' },
      expectedIssuer: 'http://localhost:3000'
    })
    const transport = new sdk.StreamableHTTPClientTransport(new URL('http://localhost:3000/mcp'), {
      authProvider,
      fetch: fetchAtPort
    })
    const client = new sdk.Client({ name: 'agent', version: '1.0.0' })
    afterTest(() => client.close())
    return { paths, client, connected: client.connect(transport) }
  }

  it('serves a client of MCP that finds the login by the 401', async () => {
    const { paths, client, connected } = await connect(machine)
    await connected
    expect(paths.slice(0, 5)).toEqual([
      '/mcp',
      '/.well-known/oauth-protected-resource/mcp',
      '/.well-known/oauth-authorization-server',
      '/token',
      '/mcp'
    ])
    const call = async (): Promise<unknown> => (await client.callTool({ name: 'count' })).content
    expect(await call()).toEqual([{ type: 'text', text: `${machine.did}: 1` }])
    expect(await call()).toEqual([{ type: 'text', text: `${machine.did}: 2` }])
  })

  it('refuses a machine that is not in its list', async () => {
    const { connected } = await connect(machine, 'did:jwk:another')
    await expect(connected).rejects.toMatchObject({ [sdk.codeField]: 'unauthorized_client' })
  })
})

describe('a machine with a did:jwk', () => {
  it('writes to the vault and reads it back; another machine cannot write there', async () => {
    const issuer = await startService()
    const vault = await testVault({ TRUSTED_ISSUER: issuer.url })
    afterTest(vault.close)
    const url = await startServer(vault.listener)
    const clientOf = (machine: Machine): VaultClient =>
      new VaultClient({ auth: new MachineClient({ url: issuer.url, ...machine }), resource: VAULT, url })
    const [own, other] = [clientOf(machine), clientOf(await createJwkMachine())]
    const { etag } = await own.add('notes', 'Built')
    expect(await own.get('notes')).toEqual({ contents: ['Built'], etag })
    expect((await own.keys()).map(({ key }) => key)).toEqual(['notes'])
    // Names and conditions never reach the entries of another DID.
    await expectClientError(other.replace('notes', 'Mine', { ifMatch: etag }), { code: 'CONFLICT' })
    expect((await other.get('notes', machine.did)).contents).toEqual(['Built'])
    expect((await other.keys()).length).toBe(0)
  })

  it('sends a file by the relay and opens it', async () => {
    const issuer = await startService()
    const relay = await startTestRelay({ TRUSTED_ISSUER: issuer.url })
    afterTest(relay.end)
    relay.clock.seconds = systemClock.nowSeconds()
    const auth = new MachineClient({ url: issuer.url, ...machine })
    const client = new RelayClient({ auth, resource: RELAY, url: await startServer(relay.listener) })
    expect(await client.open(await client.send('The old oak'))).toBe('The old oak')
  })
})
