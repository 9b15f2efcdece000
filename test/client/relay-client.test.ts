import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { RelayClient, type RelayClientOptions } from 'express-did-auth/client/relay'
import { cidOf } from '../../servers/storage/unixfs-blocks.js'
import { listenAt, type HttpAddress } from '../support/client-error.js'
import { getFile, logIn, loginCredential, postFile, startTestRelay, type TestRelay } from '../support/relay-app.js'
import { walletOf } from '../support/wallet.js'

let relay: TestRelay
let address: HttpAddress

beforeAll(async () => {
  relay = await startTestRelay()
  address = await listenAt(relay.listener)
})

afterAll(async () => {
  await address.close()
  await relay.end()
})

/** A wallet as a caller would write one, that counts what it signs. */
function plainWallet(number = 1) {
  const { address, personalSign } = walletOf(number)
  const signed: string[] = []
  const signMessage = (text: string): string => {
    signed.push(text)
    return personalSign(text)
  }
  return { address, signMessage, signed }
}

const client = (options: Partial<RelayClientOptions> = {}): RelayClient =>
  new RelayClient({ url: address.url, wallet: plainWallet(), domain: 'relay.example', ...options })

/** The relay at another address, and every byte that arrives there. */
async function recordedRelay() {
  const sent: Buffer[] = []
  const recorded = await listenAt(relay.listener)
  recorded.server.on('connection', (socket) => {
    socket.on('data', (bytes) => sent.push(Buffer.from(bytes)))
  })
  return { ...recorded, sent: () => Buffer.concat(sent).toString('latin1') }
}

/** Jest compares large arrays number by number, which takes half a minute. */
function expectSame(opened: string | Uint8Array, content: string | Uint8Array): void {
  expect(typeof opened).toBe(typeof content)
  expect(Buffer.compare(Buffer.from(opened), Buffer.from(content))).toBe(0)
}

describe('RelayClient', () => {
  it.each([
    ['a text', 'The treasure lies under the old oak 🌳'],
    ['an empty text', ''],
    ['a text with a byte order mark', '\uFEFFmark\u0000'],
    ['bytes', Uint8Array.from({ length: 1_000 }, (_, index) => index % 256)],
    ['no bytes', new Uint8Array()],
    ['a text of 1 MiB', 'ä'.repeat(524_288)],
    ['bytes of a large file', new Uint8Array(3_000_000).fill(7)]
  ])('sends %s, and opens it with another wallet', async (_what, content) => {
    const uri = await client().send(content)
    expect(uri).toMatch(/^relay:\/\/baf[a-z2-7]{56}#[\w-]{43}$/)
    expectSame(await client({ wallet: plainWallet(2) }).open(uri), content)
  })

  it.each([
    ['3600', [3600]],
    [undefined, []],
    ['soon', []]
  ])('tells for how long the relay keeps the file, where it says File-Expires-In: %s', async (header, expected) => {
    const fetchWith = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
      const answer = await fetch(url, init)
      return new Response(await answer.text(), header === undefined ? {} : { headers: { 'File-Expires-In': header } })
    }
    const told: number[] = []
    const onExpiresIn = (seconds: number): void => void told.push(seconds)
    expect(await client({ fetch: fetchWith }).send('Hello', { onExpiresIn })).toMatch(/^relay:/)
    // The logins of the same client answer no file.
    expect(told).toEqual(expected)
  })

  it('makes a link that a phone opens, and opens it', async () => {
    const uri = await client().send('Hello')
    const link = client().link(uri, 'https://app.example/open?lang=en#old')
    expect(link).toBe(`https://app.example/open?lang=en#r=${uri.slice(8).replace('#', '.')}`)
    expect(await client().open(link)).toBe('Hello')
    expect(await client().open(`  ${client().link(link, 'http://localhost:3000/')}\n`)).toBe('Hello')
  })

  it('posts what the relay cannot read, under the cid of its bytes, in the documented form', async () => {
    const uri = await client().send('The treasure')
    const [, cid = '', key = ''] = /^relay:\/\/(\w+)#(.+)$/.exec(uri) ?? []
    const { file } = (await getFile(relay, await logIn(relay, walletOf(3)), cid)).body
    expect(cidOf(Buffer.from(file))).toBe(cid)
    const bytes = Buffer.from(file, 'base64url')
    const imported = await crypto.subtle.importKey('raw', Buffer.from(key, 'base64url'), 'AES-GCM', false, ['decrypt'])
    const algorithm = { name: 'AES-GCM', iv: bytes.subarray(0, 12), additionalData: Buffer.from('relay:1') }
    const content = Buffer.from(await crypto.subtle.decrypt(algorithm, imported, bytes.subarray(12)))
    expect(content.toString()).toBe('\u0001The treasure')
  })

  it('never sends the key: not in a URL, a header or a body, whatever fails', async () => {
    const { url, sent, close } = await recordedRelay()
    const one = client({ url })
    const uri = await one.send('The treasure')
    const key = uri.slice(-43)
    const gateways = [url]
    const failures: unknown[] = []
    await one.open(uri, { gateways })
    await one.open(one.link(uri, 'https://app.example'))
    const wrong = uri.replace(/.{43}$/, 'A'.repeat(43))
    const missing = uri.replace(/baf\w{56}/, `bafkrei${'a'.repeat(52)}`)
    for (const bad of [wrong, missing, `${uri}x`, uri.slice(1)]) {
      await one.open(bad, { gateways }).catch((error: unknown) => failures.push(error))
    }
    expect(failures).toHaveLength(4)
    await close()
    const everything = [sent(), ...failures.map((error) => JSON.stringify(error) + String(error))].join('\n')
    expect(everything.match(/(?:GET|POST) \/\S+ HTTP/g)!.length).toBeGreaterThan(7)
    expect(everything).toContain(uri.slice(8, 67))
    for (const form of ['base64url', 'base64', 'hex', 'latin1'] as const) {
      expect(everything).not.toContain(Buffer.from(key, 'base64url').toString(form))
    }
    expect(everything).not.toContain('The treasure')
    expect(JSON.stringify(relay.log())).not.toContain(key)
  })

  it('signs once for many calls at a time, and again when the token has expired', async () => {
    const wallet = plainWallet(4)
    const one = client({ wallet })
    const uris = await Promise.all(['a', 'b', 'c'].map((text) => one.send(text)))
    expect(await Promise.all(uris.map((uri) => one.open(uri)))).toEqual(['a', 'b', 'c'])
    expect(wallet.signed).toEqual([
      expect.stringMatching(/^Login to relay\.example\nVerification code: [0-9a-f]{128}$/)
    ])
    relay.clock.seconds += 601
    expect(await Promise.all(uris.map((uri) => one.open(uri)))).toEqual(['a', 'b', 'c'])
    expect(wallet.signed).toHaveLength(2)
  })

  it('logs in with a credential where it is given one, and the wallet signs nothing', async () => {
    const wallet = plainWallet(5)
    const credential = (challenge: string, did: string) => loginCredential({ ...walletOf(5), did }, challenge)
    const one = client({ wallet, credential, network: 'rsk:testnet' })
    expect(await one.open(await one.send('Hello'))).toBe('Hello')
    expect(wallet.signed).toEqual([])
  })

  it('asks for a new challenge when the first was too old', async () => {
    const { address: account, personalSign } = walletOf(6)
    let signed = 0
    const signMessage = (text: string): string => {
      signed += 1
      if (signed === 1) relay.clock.seconds += 400
      return personalSign(text)
    }
    await client({ wallet: { address: account, signMessage } }).send('Hello')
    expect(signed).toBe(2)
  })

  it('opens a text that another client posted only where it is in this form', async () => {
    const token = await logIn(relay, walletOf(7))
    const { cid } = (await postFile(relay, token, 'not encrypted at all')).body
    await expect(client().open(`relay://${cid}#${'A'.repeat(43)}`)).rejects.toMatchObject({ code: 'KEY' })
  })
})
