import { describe, expect, it } from '@jest/globals'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { createHmac, sign } from 'node:crypto'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'
import { createForm, createMachine, ORDERS, toDidJwk, toDidKey } from '../support/fixtures/machines.js'
import { importWallet, machineConfig, type MachineKind } from '../support/fixtures/machines.js'
import { breakableStore, testApp, type TestApp } from '../support/servers/test-app.js'

const kinds: MachineKind[] = ['P-256', 'Ed25519', 'secp256k1']
const machine = createMachine(1)
const start = (config = {}) => testApp({ ...machineConfig, ...config })
const ask = (test: TestApp, assertion: string, fields?: Record<string, string>) =>
  test.post('/token', createForm(assertion, fields))
const askOk = async (test: TestApp, assertion: string) =>
  decodeJwt((await ask(test, assertion).expect(200)).body.access_token)

describe('POST /token', () => {
  it('gives a machine a token for a resource, signed as those of users', async () => {
    const test = await start()
    const { body, headers } = await ask(test, machine.assert()).expect(200)
    expect(body).toEqual({ access_token: expect.any(String), token_type: 'Bearer', expires_in: 300 })
    expect(headers['cache-control']).toBe('no-store')
    const { body: jwks } = await test.get('/.well-known/jwks.json').expect(200)
    const { kid } = (jwks as { keys: [{ kid: string }] }).keys[0]
    expect(decodeProtectedHeader(body.access_token)).toEqual({ alg: 'ES256', typ: 'at+jwt', kid })
    expect(decodeJwt(body.access_token)).toEqual({
      iss: 'https://service.example',
      aud: ORDERS,
      sub: machine.didKey,
      client_id: machine.didKey,
      iat: 1_800_000_000,
      exp: 1_800_000_300,
      jti: expect.stringMatching(/^[\w-]{22}$/)
    })
  })

  it.each(kinds)('accepts did:key and did:jwk with a key of %s', async (kind) => {
    const test = await start()
    const one = createMachine(2, kind)
    for (const iss of [one.didKey, one.didJwk]) expect((await askOk(test, one.assert({ iss }))).sub).toBe(iss)
  })

  it('accepts both names of the algorithm of Ed25519', async () => {
    const test = await start()
    const one = createMachine(1, 'Ed25519')
    for (const alg of ['EdDSA', 'Ed25519']) await askOk(test, one.assert({ jti: `with ${alg}` }, { alg }))
  })

  it('accepts the resource in any spelling of its URL, and issues the configured text', async () => {
    const test = await start()
    const { body } = await ask(test, machine.assert(), { resource: 'HTTPS://orders.example:443/x/../api' }).expect(200)
    expect(decodeJwt(body.access_token).aud).toBe(ORDERS)
  })

  it('issues a token for the only resource to a request that names none, and for none of several', async () => {
    const { body } = await ask(await start(), machine.assert(), { resource: '' }).expect(200)
    expect(decodeJwt(body.access_token).aud).toBe(ORDERS)
    const several = await start({ resources: [ORDERS, 'https://second.example'] })
    const refused = await ask(several, machine.assert(), { resource: '' }).expect(400)
    expect(refused.body).toEqual({ error: 'invalid_target', error_description: 'Unknown resource' })
  })

  it('lets pages of every origin read its answers, errors included, and answers their preflight request', async () => {
    const test = await start()
    for (const assertion of [machine.assert(), 'x']) {
      const { headers } = await ask(test, assertion)
      expect(headers['access-control-allow-origin']).toBe('*')
    }
    const { status, headers } = await test.options('/token', { Origin: 'https://page.example' })
    expect([status, headers['access-control-allow-origin'], headers['access-control-allow-headers']]).toEqual([
      204,
      '*',
      '*'
    ])
  })

  it('accepts the URL of the endpoint as aud, below the path of a router', async () => {
    const test = await testApp({ ...machineConfig, tokenPath: '/machines' }, { prefix: '/api' })
    const aud = 'https://service.example/api/machines'
    await test.post('/api/machines', createForm(machine.assert({ aud }))).expect(200)
    await test
      .post('/api/machines', createForm(machine.assert({ aud: 'https://service.example/machines' })))
      .expect(401)
  })

  it.each([
    ['extra parameters', createForm(machine.assert(), { scope: 'a b', audience: 'x' }), {}],
    ['client_id, the DID', createForm(machine.assert(), { client_id: machine.didKey }), {}],
    ['empty parameters, which count as absent', createForm(machine.assert(), { client_id: '' }), {}],
    ['a charset', createForm(machine.assert()), { 'Content-Type': 'application/x-www-form-urlencoded;charset=UTF-8' }]
  ])('accepts %s', async (_what, form, headers) => {
    await (await start()).post('/token', form, headers).expect(200)
  })

  const assertion = machine.assert()
  it.each([
    ['no grant_type', { grant_type: '' }, 400, 'invalid_request', 'Invalid input'],
    ['another grant_type', { grant_type: 'password' }, 400, 'unsupported_grant_type', 'Unsupported grant type'],
    ['an unknown resource', { resource: `${ORDERS}/x` }, 400, 'invalid_target', 'Unknown resource'],
    ['a resource that is no URL', { resource: 'orders' }, 400, 'invalid_target', 'Unknown resource'],
    ['no assertion', { client_assertion: '' }, 401, 'invalid_client', 'Invalid client assertion'],
    ['an assertion of another type', { client_assertion_type: 'x' }, 401, 'invalid_client', 'Invalid client assertion'],
    ['the client_id of another', { client_id: 'did:web:x' }, 401, 'invalid_client', 'Invalid client assertion']
  ])('refuses %s in the form of OAuth', async (_what, fields, status, error, error_description) => {
    const test = await start()
    const { body, headers } = await ask(test, assertion, fields).expect(status)
    expect(body).toEqual({ error, error_description })
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'content-type': 'application/json; charset=utf-8' })
    expect(headers).not.toHaveProperty('www-authenticate')
  })

  it.each([
    ['JSON', JSON.stringify({ grant_type: 'client_credentials' }), { 'Content-Type': 'application/json' }, 400],
    ['a form in parts', 'x', { 'Content-Type': 'multipart/form-data; boundary=x' }, 400],
    ['no body', '', {}, 400],
    ['a doubled parameter', `${createForm(assertion)}&resource=https%3A%2F%2Forders.example%2Fapi`, {}, 400],
    ['a doubled unknown parameter', `${createForm(assertion)}&scope=a&scope=a`, {}, 400],
    ['17 KiB', `${createForm(assertion)}&pad=${'x'.repeat(17 * 1024)}`, {}, 413]
  ])('refuses %s as invalid_request', async (_what, form, headers, status) => {
    const { body } = await (await start()).post('/token', form, headers).expect(status)
    expect(body.error).toBe('invalid_request')
  })

  it('works the same in cookie mode, and for a page of another site', async () => {
    const test = await start({ useCookies: true })
    const foreign = { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site', Cookie: 'authorization=x' }
    const { headers } = await test.post('/token', createForm(machine.assert()), foreign).expect(200)
    expect(headers).not.toHaveProperty('set-cookie')
  })

  it('does not exist without machineLogin', async () => {
    const test = await start({ machineLogin: false })
    await ask(test, assertion).expect(404)
    await test.get('/token').expect(404)
  })

  it('answers GET with an error, because it is no authorization endpoint', async () => {
    const { body } = await (await start()).get('/token?response_type=code').expect(400)
    expect(body).toMatchObject({ error: 'unsupported_response_type' })
  })
})

describe('the key of a machine', () => {
  const other = createMachine(2)
  const [payload, header] = [{ iss: machine.didKey, sub: machine.didKey }, { alg: 'ES256' }]
  const replaceSignature = (jwt: string, toSignature: (input: string) => Uint8Array): string => {
    const input = jwt.slice(0, jwt.lastIndexOf('.'))
    return `${input}.${Buffer.from(toSignature(input)).toString('base64url')}`
  }
  const hmac = (secret: string | Buffer) => (input: string) => createHmac('sha256', secret).update(input).digest()
  const asHs256 = machine.assert({}, { alg: 'HS256' })
  const secp = createMachine(1, 'secp256k1')
  const ed = createMachine(1, 'Ed25519')
  const wallet = createNumberedWallet(1)
  const asWallet = importWallet(wallet)
  const zero = Buffer.concat([Buffer.of(1), Buffer.alloc(31)])
  const forged = Buffer.concat([zero, Buffer.alloc(32)])
  const withoutPoint = toDidJwk({ ...machine.jwk, y: other.jwk.y })

  it.each<[string, string]>([
    ['the key of another machine', other.assert(payload)],
    ['the key of another machine in the header', other.assert(payload, { ...header, jwk: other.jwk, kid: 'x' })],
    ['another payload', machine.assert().replace(/\.[^.]+\./, `.${machine.assert({ scope: 'x' }).split('.')[1]!}.`)],
    ['alg none', machine.assert({}, { alg: 'none' }).replace(/[^.]+$/, '')],
    ['alg none with a signature', machine.assert({}, { alg: 'none' })],
    ['alg NONE', machine.assert({}, { alg: 'NONE' })],
    ['HS256 with the text of the key', replaceSignature(asHs256, hmac(JSON.stringify(machine.jwk)))],
    ['HS256 with the bytes of the key', replaceSignature(asHs256, hmac(Buffer.from(machine.jwk.x!, 'base64url')))],
    ['HS256 with the DID', replaceSignature(asHs256, hmac(machine.didKey))],
    ['a P-256 key as EdDSA', machine.assert({}, { alg: 'EdDSA' })],
    ['a P-256 key as ES256K', machine.assert({}, { alg: 'ES256K' })],
    ['a P-256 key as ES384', machine.assert({}, { alg: 'ES384' })],
    ['alg in lower case', machine.assert({}, { alg: 'es256' })],
    ['a secp256k1 key as ES256', secp.assert({}, { alg: 'ES256' })],
    ['a secp256k1 key as ES256K-R', secp.assert({}, { alg: 'ES256K-R' })],
    ['an Ed25519 key as ES256', ed.assert({}, { alg: 'ES256' })],
    ['an Ed25519 key as HS256', ed.assert({}, { alg: 'HS256' })],
    ['a wallet as ES256', asWallet.assert({}, { alg: 'ES256' })],
    ['the P-256 key for the DID of a wallet', machine.assert({ iss: wallet.did })],
    [
      'a secp256k1 key under the codec of P-256',
      secp.assert({
        iss: secp.didKey.replace(
          /^.*$/,
          toDidKey('P-256', Buffer.concat([Buffer.of(2), Buffer.from(secp.jwk.x!, 'base64url')]))
        )
      })
    ],
    [
      'a signature in DER',
      replaceSignature(machine.assert(), (input) => sign('sha256', Buffer.from(input), machine.privateKey))
    ],
    ['a signature of zeros', replaceSignature(machine.assert(), () => Buffer.alloc(64))],
    ['a signature of 65 bytes', replaceSignature(machine.assert(), () => Buffer.alloc(65, 1))],
    ['a did:jwk that is no point of the curve', machine.assert({ iss: withoutPoint })],
    ['a did:key that is no point of the curve', machine.assert({ iss: toDidKey('P-256', Buffer.alloc(33, 2)) })],
    [
      'a did:key of secp256k1 that is no point',
      secp.assert({ iss: toDidKey('secp256k1', Buffer.concat([Buffer.of(2), Buffer.alloc(32, 0xff)])) })
    ],
    // This signature verifies for every text with the point zero as key.
    ['an Ed25519 key of small order', replaceSignature(ed.assert({ iss: toDidKey('Ed25519', zero) }), () => forged)],
    ['a did:jwk with its private key', machine.assert({ iss: toDidJwk(machine.privateKey.export({ format: 'jwk' })) })],
    ['a did:web', machine.assert({ iss: 'did:web:service.example' })],
    ['a did:ethr without an address', asWallet.assert({ iss: 'did:ethr:rsk:0x1' })]
  ])('is the one of its DID: refuses %s', async (_what, assertion) => {
    const { body } = await ask(await start(), assertion).expect(401)
    expect(body).toEqual({ error: 'invalid_client', error_description: 'Invalid client assertion' })
  })

  it('has no other use: an access token and a resource token are refused', async () => {
    const test = await start()
    const { accessToken } = await test.logIn()
    const token = (await ask(test, machine.assert()).expect(200)).body.access_token
    for (const jwt of [accessToken, token]) await ask(test, jwt).expect(401)
  })

  it('is the wallet of a did:ethr, in each spelling of the DID', async () => {
    const test = await start()
    for (const did of [wallet.did, `did:ethr:${wallet.address}`, `did:ethr:rsk:testnet:${wallet.address}`]) {
      expect((await askOk(test, asWallet.assert({ iss: did }))).sub).toBe(did)
    }
  })
})

describe('the DID of a machine', () => {
  const wallet = createNumberedWallet(1)
  const asWallet = importWallet(wallet)

  it('is restricted by networks only if it is a did:ethr', async () => {
    const test = await start({ networks: ['rsk'] })
    await askOk(test, asWallet.assert())
    await ask(test, asWallet.assert({ iss: `did:ethr:${wallet.address}` })).expect(401)
    await askOk(test, machine.assert())
  })

  it.each(['0x1e', '0x01E'])('is not that of a contract: refuses a key for chain %s', async (network) => {
    const client = { verifyMessage: async () => true, getCode: async () => '0x1', getChainId: async () => 30 }
    const test = await start({ siwe: true, contractWallets: { 30: { ...client, ccipRead: false } } })
    await ask(test, asWallet.assert({ iss: `did:ethr:${network}:${wallet.address}` })).expect(401)
    await askOk(test, asWallet.assert())
  })

  it('is controlled by its document with didControl document, and 503 while that is unavailable', async () => {
    const delegate = createNumberedWallet(2)
    const state: { answer?: unknown } = {}
    const resolver = { resolve: async () => state.answer }
    const test = await start({ didControl: 'document', resolver })
    const askAs = (iss: string, as = importWallet(delegate)) => ask(test, as.assert({ iss }))
    const { body, headers } = await askAs('did:ethr:0x' + '1'.repeat(40)).expect(503)
    expect(body).toEqual({ error: 'temporarily_unavailable', error_description: 'DID resolver unavailable, try again' })
    expect(headers['retry-after']).toBe('10')
    const method = {
      id: '#1',
      type: 'EcdsaSecp256k1RecoveryMethod2020',
      blockchainAccountId: `eip155:30:${delegate.address}`
    }
    const didDocument = { verificationMethod: [method], authentication: ['#1'] }
    state.answer = { didDocument, didDocumentMetadata: {}, didResolutionMetadata: {} }
    await askAs(wallet.did).expect(200)
    await askAs(wallet.did, asWallet).expect(401)
    await ask(test, machine.assert()).expect(200)
  })
})

describe('an assertion', () => {
  it('is valid for one token', async () => {
    const test = await start({ replayProtection: 'window' })
    await ask(test, machine.assert()).expect(200)
    await ask(test, machine.assert()).expect(401, /"invalid_client"/)
    await ask(test, machine.assert({ jti: 'the next one' })).expect(200)
    await ask(test, createMachine(2).assert()).expect(200)
  })

  // One slot of 900 s ends at START_SECONDS, and the next one begins.
  it.each([
    ['in the next slot', -10, 20],
    ['in the slot before', 20, -10],
    ['in the same slot', 20, 50]
  ])('is used also by another one with its jti whose exp is %s', async (_what, firstExp, secondExp) => {
    const test = await start()
    test.clock.seconds = START_SECONDS - 200
    await ask(test, machine.assert({ exp: START_SECONDS + firstExp })).expect(200)
    test.clock.seconds += 100
    await ask(test, machine.assert({ exp: START_SECONDS + secondExp })).expect(401)
  })

  it('is not used by a refusal before its signature is verified', async () => {
    const test = await start()
    await ask(test, `${machine.assert().slice(0, -4)}AAAA`).expect(401)
    await ask(test, machine.assert(), { resource: 'https://unknown.example' }).expect(400)
    await ask(test, machine.assert()).expect(200)
  })

  it('gets 503 while the store is unavailable', async () => {
    const { store, state } = breakableStore('consumeChallenge')
    const test = await start({ store })
    state.isBroken = true
    const { body } = await ask(test, machine.assert()).expect(503)
    expect(body).toEqual({ error: 'temporarily_unavailable', error_description: 'Store unavailable, try again' })
    state.isBroken = false
    await ask(test, machine.assert()).expect(200)
  })
})
