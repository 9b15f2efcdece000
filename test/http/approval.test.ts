import { describe, expect, it } from '@jest/globals'
import { createHash } from 'node:crypto'
import express, { type Express, type RequestHandler } from 'express'
import fc from 'fast-check'
import { DidAuthError, loadCurve, type DescribeRequest, type DidAuthConfig, type SecurityEvent } from 'express-did-auth'
import { acceptedLoginDomains, verifyApproval } from 'express-did-auth/protocol'
import request, { type Test } from 'supertest'
import type { CreateSiweMessageParameters } from 'viem/siwe'
import { createAccount, createSignedSiwe, requestNonce, createSiweText } from '../support/fixtures/siwe.js'
import { serviceUrl, testApp } from '../support/servers/test-app.js'
import { rounds } from '../support/fixtures/time-factor.js'
import { createThrowing } from '../support/fixtures/refusal.js'
import { challengeSecret, createNumberedWallet } from '../support/fixtures/fixtures.js'

const account = createAccount(1)
const TRANSFER = { to: 'Bob', amount: '5' }
const computeHash = (body: string) => createHash('sha256').update(body).digest('hex')
const header = (approval: unknown) => Buffer.from(JSON.stringify(approval)).toString('base64url')
const describeTransfer: DescribeRequest = ({ body }) => `Send ${body.amount} RBTC to ${body.to}`

/** Creates a service whose transfers need approval, and a logged-in user. */
async function transferApp(config: Partial<DidAuthConfig> = {}, before: (app: Express) => void = () => undefined) {
  const done: unknown[] = []
  const events: SecurityEvent[] = []
  const test = await testApp(
    { siwe: true, maxRequestsPerTimeSlot: 10_000, onSecurityEvent: (event) => void events.push(event), ...config },
    {
      before,
      after(app, requireDid) {
        const approved = requireDid.approved(describeTransfer)
        const handler: express.RequestHandler = (req, res) => {
          done.push(req.body)
          res.json({ approval: req.auth?.approval, body: req.body })
        }
        app.all(['/transfer', '/other'], approved, express.json(), handler)
        app.post(
          '/plain',
          requireDid.with({ checkSession: true }),
          requireDid.approved(async () => 'Send text'),
          // A second guard keeps the user of the first one.
          requireDid,
          express.text(),
          handler
        )
      }
    }
  )
  const { accessToken } = await test.logIn()
  events.length = 0
  const send = (
    path: string,
    body: object | string = TRANSFER,
    approval?: string,
    method: 'post' | 'put' = 'post'
  ): Test => {
    const sent = request(test.app)[method](path).set('Authorization', `DIDAuth ${accessToken}`)
    void sent.set('Accept', 'application/problem+json').type(typeof body === 'string' ? 'text/plain' : 'json')
    if (approval !== undefined) void sent.set('DID-Approval', approval)
    return sent.send(body)
  }
  /** Requests an approval and signs it, with the fields that a test changes. */
  const approve = async (
    path = '/transfer',
    body: object | string = TRANSFER,
    fields: Partial<CreateSiweMessageParameters> = {},
    by = account
  ): Promise<string> => {
    const { nonce, statement } = (await send(path, body).expect(403)).body as { nonce: string; statement: string }
    const requestId = computeHash(typeof body === 'string' ? body : JSON.stringify(body))
    const message = createSiweText(by, nonce, { statement, requestId, ...fields })
    return header({ message, signature: await by.signMessage({ message }) })
  }
  return { ...test, accessToken, send, approve, done, events }
}

describe('requireDid.approved', () => {
  it('responds with the text that the user has to sign: a nonce and a description of the request', async () => {
    const { send, done } = await transferApp()
    const { body, headers } = await send('/transfer?memo=%20x').expect(403)
    expect(body).toEqual({
      type: 'about:blank',
      title: 'Approval needed',
      status: 403,
      code: 'ERR_APPROVAL',
      nonce: expect.stringMatching(/^[0-9a-f]{64}$/),
      statement: 'Approve: Send 5 RBTC to Bob (POST /transfer?memo=%20x)'
    })
    expect([headers['cache-control'], done]).toEqual(['no-store', []])
  })

  it('passes the signed request on once, with its body and the evidence', async () => {
    const { send, approve, done } = await transferApp()
    const approval = await approve()
    const { body } = await send('/transfer', TRANSFER, approval).expect(200)
    const { rawBody, ...signed } = body.approval
    expect(header(signed)).toBe(approval)
    expect(Buffer.from(rawBody.data).toString()).toBe(JSON.stringify(TRANSFER))
    await send('/transfer', TRANSFER, approval).expect(403)
    expect(done).toEqual([TRANSFER])
    const evidence = { ...signed, rawBody: Buffer.from(rawBody.data) }
    const domains = acceptedLoginDomains(serviceUrl, [])
    const proved = verifyApproval(await loadCurve(), { ...evidence, did: createNumberedWallet(1).did, domains })
    expect(proved).toMatchObject({ line: 'Send 5 RBTC to Bob', method: 'POST', path: '/transfer' })
  })

  it('accepts an async description, and hashes the bytes of a non-JSON body, but not of an empty one', async () => {
    const { send, approve } = await transferApp()
    const sent = await send('/plain', 'héllo', await approve('/plain', 'héllo')).expect(200)
    expect(Buffer.from(sent.body.body.data).toString()).toBe('héllo')
    expect(sent.body.approval.message).toContain('Send text')
    const empty = await send('/plain', '', await approve('/plain', '')).expect(200)
    expect(empty.body).not.toHaveProperty('body')
  })

  it.each<[string, (send: Awaited<ReturnType<typeof transferApp>>['send'], approval: string) => Test]>([
    ['another path', (send, approval) => send('/other', TRANSFER, approval)],
    ['another query', (send, approval) => send('/transfer?twice', TRANSFER, approval)],
    ['another method', (send, approval) => send('/transfer', TRANSFER, approval, 'put')],
    ['another body', (send, approval) => send('/transfer', { ...TRANSFER, amount: '500' }, approval)],
    ['another body that reads the same', (send, approval) => send('/transfer', { ...TRANSFER, fee: '9' }, approval)]
  ])('refuses the approval for %s, reports it, and keeps it valid for its own request', async (_what, elsewhere) => {
    const { send, approve, done, events } = await transferApp()
    const approval = await approve()
    const { body } = await elsewhere(send, approval).expect(403)
    expect(body.code).toBe('ERR_APPROVAL')
    expect(events).toMatchObject([{ type: 'proof-refused', code: 'ERR_APPROVAL' }])
    await send('/transfer', TRANSFER, approval).expect(200)
    expect(done).toEqual([TRANSFER])
  })

  it.each<[string, Partial<CreateSiweMessageParameters>]>([
    ['another statement', { statement: 'Approve: Send 1 RBTC to Bob (POST /transfer)' }],
    ['the hash of another body', { requestId: computeHash('{}') }],
    ['no hash', { requestId: undefined }],
    ['another site', { domain: 'evil.example' }],
    ['the URI of another site', { uri: 'https://evil.example/' }],
    ['a nonce that the client made', { nonce: 'ab'.repeat(32) }],
    ['an end that is over', { expirationTime: new Date(0) }],
    ['the address of another account', { address: createAccount(2).address }]
  ])('refuses %s', async (_what, fields) => {
    const { send, approve, done } = await transferApp()
    await send('/transfer', TRANSFER, await approve('/transfer', TRANSFER, fields)).expect(403)
    expect(done).toEqual([])
  })

  it('refuses the signature of another user, and an expired approval', async () => {
    const { send, approve, clock, done } = await transferApp()
    await send('/transfer', TRANSFER, await approve('/transfer', TRANSFER, {}, createAccount(2))).expect(403)
    const late = await approve()
    clock.seconds += 311
    await send('/transfer', TRANSFER, late).expect(403)
    expect(done).toEqual([])
  })

  it('refuses the nonce of a login, and /siwe/verify refuses that of an approval', async () => {
    const { app, send, approve, done } = await transferApp()
    const nonce = await requestNonce(app)
    await send('/transfer', TRANSFER, await approve('/transfer', TRANSFER, { nonce })).expect(403)
    const signed = await approve('/transfer', TRANSFER, { statement: 'Hello' })
    const approval = JSON.parse(Buffer.from(signed, 'base64url').toString())
    await request(app).post('/siwe/verify').send(approval).expect(401, 'Invalid challenge response')
    expect(done).toEqual([])
  })

  // Cause: a login whose statement looked like an approval had a login proof that could not be verified.
  it.each(['Approve: hello (GET /)', 'Approve GET /: hello'])(
    'never logs a user in, nor does the text %j',
    async (statement) => {
      const { app } = await transferApp()
      const login = await createSignedSiwe(app, account, { statement })
      await request(app).post('/siwe/verify').send(login).expect(401, 'Invalid sign-in message')
    }
  )

  it.each([
    [
      'service',
      { serviceUrl: 'https://other.example', siwe: { domains: ['service.example'] }, loginDomains: ['service.example'] }
    ],
    ['secret', { challengeSecret: 's'.repeat(32) }]
  ])('refuses the approval of another %s', async (_what, config) => {
    const elsewhere = await transferApp({ serviceUrl, challengeSecret, ...config })
    const { send, approve, done } = await transferApp()
    await elsewhere.send('/transfer', TRANSFER, await approve()).expect(403)
    await send('/transfer', TRANSFER, await elsewhere.approve()).expect(403)
    expect([done, elsewhere.done]).toEqual([[], []])
  })

  it('refuses the approval with the session of another user, and without a session', async () => {
    const { app, approve, logIn, done } = await transferApp()
    const approval = await approve()
    const other = await logIn(createNumberedWallet(2))
    const sent = (token: string) =>
      request(app).post('/transfer').set({ 'DID-Approval': approval, Authorization: token }).send(TRANSFER)
    await sent(`DIDAuth ${other.accessToken}`).expect(403, 'Approval needed')
    await sent('').expect(401)
    expect(done).toEqual([])
  })

  it('calls the contract of a contract wallet, only on the chain of its DID', async () => {
    let verdict = true
    const contract = { verifyMessage: async () => verdict, getCode: async () => '0x60' }
    const contractWallets = {
      1: { ...contract, getChainId: async () => 1 },
      30: { ...contract, getChainId: async () => 30 }
    }
    const { app, approve, done } = await transferApp({ contractWallets })
    // The contract judges a signature by another key.
    const signedFor = async (message: string, by = createAccount(2)) => ({
      message,
      signature: await by.signMessage({ message })
    })
    const login = await signedFor(createSiweText(account, await requestNonce(app)))
    const { accessToken, did } = (await request(app).post('/siwe/verify').send(login).expect(200)).body
    expect(did).toBe(`did:ethr:0x1e:${account.address.toLowerCase()}`)
    const send = async (chainId: number, by?: typeof account) => {
      const { message } = JSON.parse(Buffer.from(await approve(), 'base64url').toString())
      const other = await signedFor(message.replace('Chain ID: 30', `Chain ID: ${String(chainId)}`), by)
      const sent = request(app)
        .post('/transfer')
        .set({ Authorization: `DIDAuth ${accessToken}` })
      return (await sent.set('DID-Approval', header(other)).send(TRANSFER)).status
    }
    // The key of the account belongs to another user than its contract.
    expect([await send(1), await send(30, account), await send(30), done.length]).toEqual([403, 403, 200, 1])
    verdict = false
    expect([await send(30), done.length]).toEqual([403, 1])
  })

  it("resolves the DID document with didControl: 'document', and responds 503 if that fails", async () => {
    const createMethod = ({ address }: { address: string }) => ({
      id: '#c',
      blockchainAccountId: `eip155:30:${address}`
    })
    const createDocument = (by: { address: string }) => ({
      verificationMethod: [createMethod(by)],
      authentication: ['#c']
    })
    let didDocument: object | undefined = createDocument(account)
    const resolve = async () => {
      if (didDocument === undefined) throw new Error('no answer')
      return { didDocument }
    }
    const { send, approve, clock } = await transferApp({ didControl: 'document', resolver: { resolve } })
    await send('/transfer', TRANSFER, await approve()).expect(200)
    didDocument = createDocument(createAccount(2))
    clock.seconds += 60
    await send('/transfer', TRANSFER, await approve()).expect(403)
    await send('/transfer', TRANSFER, await approve('/transfer', TRANSFER, {}, createAccount(2))).expect(200)
    didDocument = undefined
    clock.seconds += 60
    const approval = await approve()
    await send('/transfer', TRANSFER, approval).expect(503)
  })

  it('responds 400 or 403 to malformed headers: 200, or 2,000', async () => {
    const { send, done } = await transferApp()
    const base64url = fc.string({ maxLength: 60 }).map((text) => Buffer.from(text).toString('base64url'))
    const text = fc.string({ maxLength: 40 })
    const json = fc.record({ message: fc.oneof(text, fc.jsonValue()), signature: fc.oneof(text, fc.jsonValue()) })
    const headers = fc.oneof(
      base64url,
      json.map(header),
      fc.jsonValue().map(header),
      fc.stringMatching(/^[!-~]{1,60}$/)
    )
    for (const given of fc.sample(headers, rounds(200, 2_000))) {
      const { status } = await send('/transfer', TRANSFER, given)
      if (status !== 400 && status !== 403) throw new Error(`${given}: ${String(status)}`)
    }
    const large = await send('/transfer', TRANSFER, 'a'.repeat(12_000))
    expect([large.status, done]).toEqual([400, []])
  })

  it('responds 413 to a body above 100 KiB, and 400 to invalid JSON', async () => {
    const { app, accessToken } = await transferApp()
    const sent = () => request(app).post('/transfer').set('Authorization', `DIDAuth ${accessToken}`).type('json')
    await sent()
      .send(JSON.stringify({ ...TRANSFER, memo: 'x'.repeat(102_400) }))
      .expect(413)
    await sent().send('{"to":').expect(400, 'Malformed JSON')
  })

  // Cause: 1,370 characters of a query preceded the description, and hid it in the wallet's window.
  it('shows the description before a path of at most 200 characters, and signs the whole path', async () => {
    const { send, approve, done } = await transferApp()
    const path = `/transfer?memo=${'x'.repeat(2_000)}`
    const { statement } = (await send(path).expect(403)).body
    const shown = `${path.slice(0, 200)}... sha256:${computeHash(path)}`
    expect(statement).toBe(`Approve: Send 5 RBTC to Bob (POST ${shown})`)
    const approval = await approve(path)
    await send(`${path}y`, TRANSFER, approval).expect(403)
    await send(path.replace('transfer', 'other'), TRANSFER, approval).expect(403)
    await send(path, TRANSFER, approval).expect(200)
    expect(done).toHaveLength(1)
  })
})

describe('the option describe of requireDid.approved', () => {
  /** Returns the response to an approved request with this description. */
  async function answerTo(describe: DescribeRequest) {
    const { app, logIn } = await testApp(
      { siwe: true },
      { after: (app, requireDid) => app.post('/transfer', requireDid.approved(describe), () => undefined) }
    )
    const { accessToken } = await logIn()
    const approval = header({ message: createSiweText(account, 'ab'.repeat(32)), signature: '0x' })
    const sent = request(app).post('/transfer').set('Authorization', `DIDAuth ${accessToken}`)
    const { status, text } = await sent.set('DID-Approval', approval)
    return `${String(status)} ${text}`
  }

  it.each<[string, DescribeRequest]>([
    ['throws', createThrowing(new Error('no'))],
    ['rejects', () => Promise.reject(new Error('no'))],
    ['returns no text', () => undefined as never]
  ])('causes 500 if it %s', async (_what, describe) => expect(await answerTo(describe)).toBe('500 Internal error'))

  // Cause: the description quotes client input, and the response was 500.
  it.each<[string, DescribeRequest]>([
    ['an empty line', () => ''],
    ['a line break', () => 'Send 1\nURI: https://evil.example'],
    ['a change of the text direction', () => 'Send 1 to \u202ebob'],
    ['more than 500 characters', () => 'x'.repeat(501)],
    ['ERR_INVALID of the application', createThrowing(new DidAuthError('ERR_INVALID'))]
  ])('causes 400 for %s', async (_what, describe) => expect(await answerTo(describe)).toBe('400 Invalid input'))
})

describe('the position of requireDid.approved', () => {
  it.each([
    ['express.json()', express.json()],
    ['express.text()', express.text({ type: '*/*' })],
    ['express.raw()', express.raw({ type: '*/*' })]
  ])('must be before %s: otherwise 500, and the log states the reason', async (_name, parser) => {
    const { send, log, done } = await transferApp({}, (app) => app.use('/transfer', parser))
    expect((await send('/transfer').expect(500)).body.code).toBe('ERR_CONFIG')
    expect(JSON.stringify(log)).toContain('has to run before body parsers')
    expect(done).toEqual([])
  })

  it.each<[string, RequestHandler]>([
    [
      'a middleware that reads the body and keeps it',
      (req, _res, next) => void req.resume().on('end', () => setImmediate(next))
    ],
    [
      'a platform that has parsed the body',
      (req, _res, next) => {
        req.body = TRANSFER
        next()
      }
    ]
  ])('must be before %s', async (_name, reader) => {
    const { send, log, done } = await transferApp({}, (app) => app.use('/transfer', reader))
    expect((await send('/transfer').expect(500)).body.code).toBe('ERR_CONFIG')
    expect(JSON.stringify(log)).toContain('has to run before body parsers')
    expect(done).toEqual([])
  })

  it('may be behind a parser that does not read the body', async () => {
    const { send, approve } = await transferApp({}, (app) =>
      app.use(express.urlencoded({ extended: true }), express.text())
    )
    await send('/transfer', TRANSFER, await approve()).expect(200)
  })

  it('requires a service with the option siwe', async () => {
    const { requireDid } = await testApp()
    expect(() => requireDid.approved(() => 'x')).toThrow('requireDid.approved needs the option siwe')
  })
})
