import { beforeAll, describe, expect, it } from '@jest/globals'
import type { RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import { createCredentialStatus } from '../../src/adapters/credential-status.js'
import { createIssuerSignatureCheck } from '../../src/adapters/credential-verifier.js'
import { loadCurve } from '../../src/adapters/curve.js'
import { EventLoopScheduler } from '../../src/adapters/concurrency-limiter.js'
import { DidAuthError } from '../../src/errors.js'
import type { CredentialClient, Deadline } from '../../src/ports.js'
import { parseCredential } from '../../src/protocol/credential.js'
import type { Curve } from '../../src/protocol/curve.js'
import { noDeadline } from '../../src/time.js'
import { deadRpcUrl } from '../support/faults/rpc-node.js'
import { createNumberedWallet, START_SECONDS, TestClock } from '../support/fixtures/fixtures.js'
import { catchCode } from '../support/fixtures/refusal.js'
import { holdTime } from '../support/fixtures/hold-time.js'
import { until } from '../support/fixtures/until.js'
import { startStatusListIssuer } from '../support/faults/status-list-issuer.js'
import {
  createStatusEntry,
  encodeBits,
  signCredentialWithStatus,
  signStatusList
} from '../support/fixtures/status-lists.js'

const user = createNumberedWallet(1)
const issuer = createNumberedWallet(6301)
const second = createNumberedWallet(6302)

let curve: Curve

beforeAll(async () => {
  curve = await loadCurve()
})

const readCredential = (status: unknown, by = issuer) =>
  parseCredential(signCredentialWithStatus(by, user.did, status), user.did, START_SECONDS).credential

/** Creates the check of a service on this machine, whose clock the test controls. */
function createStatus(serviceUrl = 'http://localhost:3000') {
  const clock = new TestClock()
  const counts = { charged: 0 }
  const client: CredentialClient = {
    network: '203.0.113.7',
    isGone: () => false,
    chargeKey: async () => void (counts.charged += 1)
  }
  const isSigned = createIssuerSignatureCheck({
    curve,
    scheduler: new EventLoopScheduler(),
    issuerKeys: { keysOf: async () => [] },
    provesByAddress: true
  })
  const assertCredentials = createCredentialStatus(clock, isSigned, serviceUrl)
  const check = (statuses: unknown[], deadline: Deadline = noDeadline, by = issuer): Promise<unknown> =>
    catchCode(
      assertCredentials(
        statuses.map((value) => readCredential(value, by)),
        client,
        deadline
      )
    )
  return { clock, counts, client, check, assertCredentials }
}

/** Checks one entry of a list that is answered this way. */
async function checkAnswer(answer: string | RequestListener, changes: object = {}): Promise<unknown> {
  const { url } = await startStatusListIssuer(answer)
  return createStatus().check([createStatusEntry(url, changes)])
}

describe('createCredentialStatus', () => {
  it('accepts a bit that is not set, and refuses one that is', async () => {
    const list = signStatusList(issuer, [4, 6])
    expect(await checkAnswer(list)).toBeUndefined()
    expect(await checkAnswer(`${list}\n`)).toBeUndefined()
    expect(await checkAnswer(list, { statusListIndex: '4' })).toBe('ERR_CREDENTIAL_REVOKED')
    expect(await checkAnswer(list, { statusListIndex: '131072' })).toBe('ERR_CREDENTIAL')
  })

  it('refuses a suspended credential', async () => {
    const list = signStatusList(issuer, [5], { subject: { statusPurpose: 'suspension' } })
    expect(await checkAnswer(list, { statusPurpose: 'suspension' })).toBe('ERR_CREDENTIAL_REVOKED')
    expect(await checkAnswer(list)).toBe('ERR_CREDENTIAL_STATUS')
  })

  it('checks each entry of each credential', async () => {
    const { url } = await startStatusListIssuer(signStatusList(issuer, [9]))
    const { check } = createStatus()
    const entries = [createStatusEntry(url), createStatusEntry(url, { statusListIndex: '9' })]
    expect(await check([undefined, createStatusEntry(url), entries[0]])).toBeUndefined()
    expect(await check([undefined, createStatusEntry(url), entries])).toBe('ERR_CREDENTIAL_REVOKED')
  })

  it('fetches nothing for a credential without status, or if any entry is invalid', async () => {
    const { url, asked } = await startStatusListIssuer()
    const { check, counts } = createStatus()
    expect(await check([undefined, undefined])).toBeUndefined()
    expect(await check([createStatusEntry(url), createStatusEntry(url, { statusSize: 2 })])).toBe('ERR_CREDENTIAL')
    expect([asked, counts.charged]).toEqual([[], 0])
  })

  it('fetches http only from this machine, for a service on this machine', async () => {
    const { url, asked } = await startStatusListIssuer(signStatusList(issuer, []))
    for (const serviceUrl of ['https://service.example', 'service.example', 'urn:service']) {
      expect(await createStatus(serviceUrl).check([createStatusEntry(url)])).toBe('ERR_CREDENTIAL')
    }
    expect(await createStatus().check([createStatusEntry('http://issuer.example/list')])).toBe('ERR_CREDENTIAL')
    expect(asked).toEqual([])
    for (const serviceUrl of ['http://127.0.0.1:3000', 'http://[::1]:3000', 'https://app.localhost']) {
      expect(await createStatus(serviceUrl).check([createStatusEntry(url)])).toBeUndefined()
    }
  })
})

describe('createCredentialStatus: lists that cannot be read', () => {
  const bomb = (byteCount: number): string =>
    `u${gzipSync(Buffer.alloc(byteCount), { level: 9 }).toString('base64url')}`
  const answerBits = (encodedList: string): string => signStatusList(issuer, [], { subject: { encodedList } })
  const gzip = Buffer.from(encodeBits([]).slice(1), 'base64url')
  const toText = (bytes: Buffer): string => `u${bytes.toString('base64url')}`

  it('accepts 4 MiB of bits', async () => {
    expect(await checkAnswer(answerBits(bomb(4 * 1024 * 1024)))).toBeUndefined()
  })

  it.each<[string, () => string | RequestListener]>([
    ['4 MiB and a byte of bits', () => answerBits(bomb(4 * 1024 * 1024 + 1))],
    ['bits that inflate to 256 MiB', () => answerBits(bomb(256 * 1024 * 1024))],
    ['fewer than 131,072 bits', () => answerBits(encodeBits([], 16_383))],
    ['bits that end early', () => answerBits(toText(gzip.subarray(0, -9)))],
    ['bits with a wrong checksum', () => answerBits(toText(Buffer.concat([gzip.subarray(0, -8), Buffer.alloc(8)])))],
    ['bits that are not compressed', () => answerBits(toText(Buffer.alloc(16_384)))],
    ['a signature of another key', () => signStatusList({ ...second, did: issuer.did }, [])],
    ["another issuer's list", () => signStatusList(second, [])],
    ['a list that has expired', () => signStatusList(issuer, [], { claims: { exp: START_SECONDS } })],
    ['HTML', () => '<!doctype html><title>Not found</title>'],
    ['nothing', () => ''],
    ['404', () => (_req, res) => res.writeHead(404).end(signStatusList(issuer, []))],
    ['500', () => (_req, res) => res.writeHead(500).end()],
    ['a redirect', () => (_req, res) => res.writeHead(302, { Location: '/list' }).end(signStatusList(issuer, []))],
    ['a hang-up', () => (req) => req.socket.destroy()],
    [
      'a body that ends early',
      () => (_req, res) => void res.writeHead(200, { 'Content-Length': 900 }).write('e', () => res.destroy())
    ],
    ['more than 512 KiB', () => `${signStatusList(issuer, [])}${' '.repeat(512 * 1024)}`],
    [
      'a compressed answer of more than 512 KiB',
      () => (_req, res) =>
        res.writeHead(200, { 'Content-Encoding': 'gzip' }).end(gzipSync(Buffer.alloc(64 * 1024 * 1024)))
    ]
  ])('names %s unavailable', async (_name, createAnswer) => {
    expect(await checkAnswer(createAnswer())).toBe('ERR_CREDENTIAL_STATUS')
  })

  it('stops to read an answer that never ends', async () => {
    let sent = 0
    const answer: RequestListener = (_req, res) => {
      const write = (): void => {
        while (!res.destroyed && res.write(Buffer.alloc(16 * 1024, ' '))) sent += 16
      }
      res.on('drain', write)
      write()
    }
    expect(await checkAnswer(answer)).toBe('ERR_CREDENTIAL_STATUS')
    // The rest is in the buffers of the sockets.
    expect(sent).toBeLessThan(16 * 1024)
  })

  it('waits 3 s for a slow issuer', async () => {
    const time = holdTime()
    const { url, asked } = await startStatusListIssuer((_req, res) => void res.write('e'))
    const checked = createStatus().check([createStatusEntry(url)])
    await until(() => asked.length > 0)
    time.end(3_000)
    expect(await checked).toBe('ERR_CREDENTIAL_STATUS')
  })

  it('starts no fetch after the deadline of the request', async () => {
    const { url, asked } = await startStatusListIssuer((_req, res) => void res.write('e'))
    const deadline: Deadline = {
      within: async (_seconds, work, expired) => {
        if (asked.length > 0) throw expired()
        const expiry = until(() => asked.length > 0).then(() => Promise.reject(expired()))
        return Promise.race([work(), expiry])
      }
    }
    const entries = [createStatusEntry(url), createStatusEntry(`${url}/2`)]
    expect(await createStatus().check(entries, deadline)).toBe('ERR_CREDENTIAL_STATUS')
    expect(asked).toEqual(['/list'])
  })

  it('names the list and the check in the cause', async () => {
    const { url } = await startStatusListIssuer(signStatusList(second, []))
    const { assertCredentials, client } = createStatus()
    const failing = assertCredentials([readCredential(createStatusEntry(url))], client, noDeadline)
    const message = `status list ${url}: issuer of the list is not that of the credential`
    await expect(failing).rejects.toMatchObject({ code: 'ERR_CREDENTIAL_STATUS', cause: { message } })
  })

  it.each(['{"error":"busy"}', '{', '[]', '{"proof":1'])('names %s unavailable', async (answer) => {
    expect(await checkAnswer(answer)).toBe('ERR_CREDENTIAL_STATUS')
  })

  it.each([
    ['a list with a Data Integrity proof', { '@context': ['https://www.w3.org/ns/credentials/v2'], proof: {} }],
    ['a list without proof', { credentialSubject: { type: 'BitstringStatusList' } }],
    ['an enveloped list', { '@context': [], id: 'data:application/vc+cose,abc', type: 'EnvelopedVerifiableCredential' }]
  ])('refuses %s for ever, without asking to try again', async (_name, list) => {
    const { url } = await startStatusListIssuer(`\n${JSON.stringify(list, null, 2)}`)
    const { assertCredentials, client } = createStatus()
    const failing = assertCredentials([readCredential(createStatusEntry(url))], client, noDeadline)
    const reason = { check: 'status list', expected: 'only lists as JWT' }
    const error: unknown = await failing.catch((refusal: unknown) => refusal)
    expect(error).toMatchObject({ code: 'ERR_CREDENTIAL', reason })
    expect(error).not.toHaveProperty('retryAfterSeconds')
  })

  it('fetches nothing for an entry of another purpose', async () => {
    const { url, asked } = await startStatusListIssuer()
    const entry = createStatusEntry(url, { statusPurpose: 'refresh' })
    expect([await createStatus().check([entry]), asked]).toEqual([undefined, []])
  })

  it('asks a port without a listener', async () => {
    const { check } = createStatus()
    expect(await check([createStatusEntry(await deadRpcUrl())])).toBe('ERR_CREDENTIAL_STATUS')
  })
})

describe('createCredentialStatus: cache', () => {
  it('uses a list for its ttl, also during an outage, and no longer', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, [], { subject: { ttl: 60_000 } }))
    const { clock, check } = createStatus()
    const statuses = [createStatusEntry(host.url)]
    expect(await check(statuses)).toBeUndefined()
    host.answer = (req) => req.socket.destroy()
    clock.seconds += 59
    expect(await check(statuses)).toBeUndefined()
    expect(host.asked).toHaveLength(1)
    clock.seconds += 1
    expect(await check(statuses)).toBe('ERR_CREDENTIAL_STATUS')
    // A failure is not cached: the next attempt fetches again.
    host.answer = signStatusList(issuer, [5])
    expect(await check(statuses)).toBe('ERR_CREDENTIAL_REVOKED')
    expect(host.asked).toHaveLength(3)
  })

  it('fetches again after 5 minutes', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const { clock, check } = createStatus()
    const statuses = [createStatusEntry(host.url)]
    await check(statuses)
    clock.seconds += 299
    await check(statuses)
    expect(host.asked).toHaveLength(1)
    clock.seconds += 1
    await check(statuses)
    expect(host.asked).toHaveLength(2)
  })

  it('keeps 16 lists', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const { check } = createStatus()
    const numbers = [...Array(17).keys()]
    const statuses = numbers.map((at) => createStatusEntry(`${host.url}/${at}`))
    expect(await check(statuses)).toBeUndefined()
    expect(await check(statuses.slice(1))).toBeUndefined()
    expect(host.asked).toHaveLength(17)
    expect(await check(statuses.slice(0, 1))).toBeUndefined()
    expect(host.asked).toHaveLength(18)
  })

  it('fetches each list of a sign up once, even if they are more than it keeps', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const { check, counts } = createStatus()
    const statuses = [...Array(17).keys()].map((at) => createStatusEntry(`${host.url}/${at}`))
    expect(await check([...statuses, statuses[0]])).toBeUndefined()
    expect([host.asked.length, counts.charged]).toEqual([17, 17])
  })

  it('does not use a list of one type for an entry of another', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const { check } = createStatus()
    expect(await check([createStatusEntry(host.url)])).toBeUndefined()
    const entry = createStatusEntry(host.url, { type: 'StatusList2021Entry' })
    expect(await check([entry])).toBe('ERR_CREDENTIAL_STATUS')
  })

  it('does not use a list of one issuer for another', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const { check } = createStatus()
    const statuses = [createStatusEntry(host.url)]
    expect(await check(statuses)).toBeUndefined()
    expect(await check(statuses, noDeadline, second)).toBe('ERR_CREDENTIAL_STATUS')
    expect(await check(statuses)).toBeUndefined()
  })

  it('fetches once for 50 simultaneous sign ups', async () => {
    const host = await startStatusListIssuer((_req, res) => {
      setTimeout(() => res.end(signStatusList(issuer, [])), 50)
    })
    const { check } = createStatus()
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => check([createStatusEntry(host.url)])))
    expect(outcomes).toEqual(Array(50).fill(undefined))
    expect(host.asked).toHaveLength(1)
  })

  it('charges a client for each list that is not cached, and fetches nothing over its budget', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const { check, counts, client } = createStatus()
    await check([createStatusEntry(host.url), createStatusEntry(`${host.url}/2`)])
    await check([createStatusEntry(host.url)])
    expect(counts.charged).toBe(2)
    client.chargeKey = () => Promise.reject(new DidAuthError('ERR_TOO_MANY_REQUESTS'))
    expect(await check([createStatusEntry(`${host.url}/3`)])).toBe('ERR_TOO_MANY_REQUESTS')
    expect(host.asked).toEqual(['/list', '/list/2'])
  })

  it('finishes a fetch for others if the client that started it disconnects', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const { assertCredentials, client, check } = createStatus()
    const isGone = (): boolean => true
    const first = assertCredentials([readCredential(createStatusEntry(host.url))], { ...client, isGone }, noDeadline)
    expect(await check([createStatusEntry(host.url)])).toBeUndefined()
    await first
    expect(host.asked).toHaveLength(1)
  })
})
