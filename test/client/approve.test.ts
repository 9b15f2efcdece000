import { describe, expect, it } from '@jest/globals'
import { createHash } from 'node:crypto'
import { parseSiweMessage } from 'viem/siwe'
import type { AuthorizedInit } from 'express-did-auth-client'
import { catchFailure } from '../support/fixtures/client-error.js'
import { alice, startClientService } from '../support/servers/client-service.js'
import type { Host } from '../support/servers/test-app.js'
import { createNumberedWallet, createWatchedWallet } from '../support/fixtures/fixtures.js'

const JSON_TYPE = { 'Content-Type': 'application/json' }
const BODY = JSON.stringify({ to: 'Bob' })
const FORM = new FormData()
FORM.set('to', 'Bob')
const NONCE = 'ab'.repeat(32)

/** Starts a service whose transfers need approval, with a logged-in client and the texts that its wallet signs. */
async function startApprovingService(options: { url?: string; prefix?: string } = {}) {
  const after: Host['after'] = (app, requireDid) => {
    const handler = requireDid.approved(({ body }) => `Send 5 RBTC to ${body?.to ?? 'Carol'}`)
    app.all(
      `${options.prefix ?? ''}/transfer`,
      handler,
      (req, res) => void res.json({ type: req.headers['content-type'] })
    )
    app.get('/forbidden', (_req, res) => void res.status(403).json({ code: 'ERR_OF_THE_APP' }))
  }
  const { prefix } = options
  const service = await startClientService({ siwe: true }, { after, ...(prefix !== undefined && { prefix }) })
  const { signed: texts, ...signer } = createWatchedWallet(alice)
  const wallet = { ...signer, chainId: 30 }
  const auth = await service.signedIn({ wallet, ...(prefix !== undefined && { url: service.url + prefix }) })
  texts.length = 0
  service.exchanges.length = 0
  const transfer = (init: AuthorizedInit = {}) =>
    auth.fetch('/transfer?fast', { method: 'POST', headers: JSON_TYPE, body: BODY, approve: true, ...init })
  return { ...service, auth, texts, transfer }
}

const problem = (fields: object): Response =>
  new Response(JSON.stringify({ code: 'ERR_APPROVAL', ...fields }), { status: 403 })

describe('DidAuthClient.fetch with approve', () => {
  it('has the wallet sign a description of the request, and sends the request again', async () => {
    const { transfer, texts, exchanges } = await startApprovingService()
    expect((await transfer()).status).toBe(200)
    expect(texts).toHaveLength(1)
    const { statement, domain, address, chainId } = parseSiweMessage(texts[0]!)
    expect(statement).toBe('Approve: Send 5 RBTC to Bob (POST /transfer?fast)')
    expect([domain, address?.toLowerCase(), chainId]).toEqual(['service.example', alice.address.toLowerCase(), 30])
    expect(texts[0]).toContain(`Request ID: ${createHash('sha256').update(BODY).digest('hex')}`)
    expect(exchanges.map(({ status }) => status)).toEqual([403, 200])
  })

  // Cause: the signed request was sent with the previous token, which had expired meanwhile.
  it('refreshes a token that expires while the wallet prompt is open', async () => {
    const { auth, clock, exchanges } = await startApprovingService()
    await auth.logIn({ wallet: createWatchedWallet(alice, () => (clock.seconds += 60)) })
    clock.seconds += 540
    exchanges.length = 0
    const init = { method: 'POST', headers: JSON_TYPE, body: BODY, approve: true }
    expect((await auth.fetch('/transfer', init)).status).toBe(200)
    expect(exchanges.map(({ path }) => path)).toEqual(['/transfer', '/refresh-token', '/transfer'])
  })

  it.each<[string, RequestInit]>([
    ['no body', { body: null, headers: {} }],
    ['bytes', { body: new TextEncoder().encode(BODY), headers: JSON_TYPE }],
    ['a blob', { body: new Blob(['%PDF'], { type: 'application/pdf' }), headers: {} }],
    ['the fields of a form', { body: new URLSearchParams({ to: 'Bob' }), headers: {} }],
    ['a form with a random boundary', { body: FORM, headers: {} }],
    ['GET', { method: 'GET', body: null, headers: {} }]
  ])('signs the request as it is sent: %s', async (_what, init) => {
    const { transfer } = await startApprovingService()
    const answer = await transfer(init)
    const { type } = (await answer.json()) as { type?: string }
    expect([answer.status, type?.split(';')[0]]).toEqual([200, readContentType(init)])
  })

  it('recognizes the request below the path of the service, even if a proxy removes that path', async () => {
    const mounted = await startApprovingService({ prefix: '/api' })
    expect((await mounted.transfer()).status).toBe(200)
    const behind = await startApprovingService({ prefix: '/api' })
    const statement = 'Approve: Send 5 RBTC to Bob (POST /transfer?fast)'
    behind.intercept(({ headers }) =>
      headers.has('DID-Approval') ? new Response('done') : problem({ nonce: NONCE, statement })
    )
    expect(await (await behind.transfer()).text()).toBe('done')
    expect(parseSiweMessage(behind.texts[0]!).statement).toBe(statement)
  })

  it('signs the hash of a shortened path, also below the path of the service', async () => {
    const { auth, texts } = await startApprovingService({ prefix: '/api' })
    const path = `/transfer?${'x'.repeat(300)}`
    expect((await auth.fetch(path, { method: 'POST', approve: true })).status).toBe(200)
    const hash = createHash('sha256').update(`/api${path}`).digest('hex')
    expect(parseSiweMessage(texts[0]!).statement).toMatch(new RegExp(`^Approve: Send 5 RBTC to Carol .*${hash}\\)$`))
  })

  it.each<[string, object]>([
    ['another path', { statement: 'Approve: Send 5 RBTC to Bob (POST /other)' }],
    ['another query', { statement: 'Approve: Send 5 RBTC to Bob (POST /transfer)' }],
    ['another method', { statement: 'Approve: Send 5 RBTC to Bob (PUT /transfer?fast)' }],
    ['no approval', { statement: 'I owe you 100 RBTC' }],
    ['no description for the user', { statement: 'Approve:  (POST /transfer?fast)' }],
    ['further lines of the text', { statement: 'Approve: Hi\n\nURI: https://evil.example (POST /transfer?fast)' }],
    ['a character that reverses the text', { statement: 'Approve: Send \u202e5 (POST /transfer?fast)' }],
    ['no statement', { statement: undefined }],
    ['a nonce of several lines', { nonce: `${NONCE}\nRequest ID: 00` }],
    ['no nonce', { nonce: undefined }]
  ])('never shows the wallet a text that the service substitutes: %s', async (_what, fields) => {
    const { transfer, texts, intercept } = await startApprovingService()
    const statement = 'Approve: Send 5 RBTC to Bob (POST /transfer?fast)'
    intercept(() => problem({ nonce: NONCE, statement, ...fields }))
    expect(await catchFailure(transfer())).toMatchObject({ code: 'PROTOCOL' })
    expect(texts).toEqual([])
  })

  it('returns every other refusal unchanged, and this one without the option approve', async () => {
    const { auth, transfer, texts } = await startApprovingService()
    expect(await (await auth.fetch('/forbidden', { approve: true })).json()).toEqual({ code: 'ERR_OF_THE_APP' })
    const answer = await transfer({ approve: false })
    expect([answer.status, await answer.json()]).toEqual([403, expect.objectContaining({ code: 'ERR_APPROVAL' })])
    expect(texts).toEqual([])
  })

  it('returns the second refusal, for example after the wallet switched accounts', async () => {
    const service = await startApprovingService()
    let [account] = [alice]
    const wallet = {
      getAddress: async () => account.address,
      signMessage: async (text: string) => account.personalSign(text)
    }
    const auth = await service.signedIn({ wallet })
    account = createNumberedWallet(2)
    service.exchanges.length = 0
    const { status } = await auth.fetch('/transfer', { method: 'POST', approve: true })
    expect([status, service.exchanges.map((exchange) => exchange.status)]).toEqual([403, [403, 403]])
  })

  it.each([0, 97, 1_500])('sends the signature of a contract account: %d bytes', async (bytes) => {
    const service = await startApprovingService()
    const signature = `0x${'ab'.repeat(bytes)}`
    let isContract = false
    const signMessage = (text: string) => (isContract ? signature : alice.personalSign(text))
    const auth = await service.signedIn({ wallet: { address: alice.address, chainId: 30, signMessage } })
    isContract = true
    service.intercept(({ headers }) => (headers.has('DID-Approval') ? new Response('sent') : undefined))
    expect(await (await auth.fetch('/transfer', { method: 'POST', approve: true })).text()).toBe('sent')
    const approval = Buffer.from(service.exchanges.at(-1)!.headers.get('DID-Approval')!, 'base64url').toString()
    expect(JSON.parse(approval)).toMatchObject({ signature })
  })

  it('throws USER_REJECTED if the user closes the window, and sends nothing', async () => {
    const service = await startApprovingService()
    const rejected = Object.assign(new Error('no'), { code: 4001 })
    let isOpen = true
    const wallet = createWatchedWallet(alice, () => (isOpen ? undefined : Promise.reject(rejected)))
    const auth = await service.signedIn({ wallet })
    isOpen = false
    service.exchanges.length = 0
    const failure = await catchFailure(auth.fetch('/transfer', { method: 'POST', approve: true }))
    expect(failure).toMatchObject({ code: 'USER_REJECTED' })
    expect(service.exchanges).toHaveLength(1)
  })
})

function readContentType({ body, headers }: RequestInit): string | undefined {
  if (headers === JSON_TYPE) return 'application/json'
  return new Response(body).headers.get('Content-Type')?.split(';')[0]
}
