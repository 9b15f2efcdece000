import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { RelayClient, type RelayClientOptions } from 'express-did-auth-client/relay'
import { crypt, randomBytes } from '../../src/client/wire/seal.js'
import { cidOf } from '../../servers/content/unixfs-blocks.js'
import { listenAt, startServer, type HttpAddress } from '../support/fixtures/client-error.js'
import { afterTest } from '../support/fixtures/after-test.js'
import {
  getFile,
  logIn,
  loginCredential,
  postFile,
  startTestRelay,
  type TestRelay
} from '../support/servers/relay-app.js'
import { createNumberedWallet, createWatchedWallet } from '../support/fixtures/fixtures.js'

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

const watched = (number = 1) => createWatchedWallet(createNumberedWallet(number))

const client = (options: Partial<RelayClientOptions> = {}): RelayClient =>
  new RelayClient({ url: address.url, wallet: watched(), domain: 'relay.example', ...options })

/** Starts the relay at another address, and records all bytes that it receives. */
async function startRecordedRelay() {
  const sent: Buffer[] = []
  const recorded = await listenAt(relay.listener)
  recorded.server.on('connection', (socket) => {
    socket.on('data', (bytes) => sent.push(Buffer.from(bytes)))
  })
  return { ...recorded, sent: () => Buffer.concat(sent).toString('latin1') }
}

/** Compares bytes as buffers, because Jest takes half a minute to compare large arrays number by number. */
function expectSame(opened: string | Uint8Array | File, content: string | Uint8Array): void {
  expect(typeof opened).toBe(typeof content)
  expect(Buffer.compare(Buffer.from(opened as string | Uint8Array), Buffer.from(content))).toBe(0)
}

/** Posts content that this package's client never encrypts, and returns its URI. */
async function sendPlain(plain: Uint8Array): Promise<string> {
  const [key, iv] = [randomBytes(32), randomBytes(12)]
  const sealed = await crypt('encrypt', key, iv, 'relay:1', Uint8Array.from(plain))
  const file = Buffer.concat([iv, sealed]).toString('base64url')
  const { cid } = (await postFile(relay, await logIn(relay, createNumberedWallet(8)), file)).body
  return `relay://${cid}#${Buffer.from(key).toString('base64url')}`
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
    expectSame(await client({ wallet: watched(2) }).open(uri), content)
  })

  it.each([
    ['notes.pdf', 'application/pdf', 'notes.pdf'],
    ['Übersicht \u{1F333}.txt', 'text/plain;charset=utf-8', 'Übersicht \u{1F333}.txt'],
    ['a "quoted"\nname', '', 'a "quoted"name'],
    ['../..\\/etc/passwd', '', '....etcpasswd'],
    ['invoice\u202Efdp.exe\u0000', '', 'invoicefdp.exe'],
    ['..', '', 'file'],
    ['', '', 'file'],
    ['n'.repeat(300), 't'.repeat(300), 'n'.repeat(255)]
  ])('sends a file %j of type %j, and opens it as %j', async (name, type, expected) => {
    const uri = await client().send(new File(['a', Uint8Array.of(0, 10, 255)], name, { type }))
    const file = (await client({ wallet: watched(2) }).open(uri)) as File
    expect(file).toBeInstanceOf(File)
    expect([file.name, file.type]).toEqual([expected, type.slice(0, 255)])
    expect([...new Uint8Array(await file.arrayBuffer())]).toEqual([97, 0, 10, 255])
  })

  it.each([
    ['a name that clients of this package do not write', '\u0002["../a\\u0007b",""]\nhi', 'ab'],
    ['half a character', '\u0002["a\\ud800",""]\nhi', 'a'],
    ['an additional field', '\u0002["a","",1]\nhi', 'a'],
    ['a header of 4096 bytes', `\u0002["a",${' '.repeat(4_087)}""]\nhi`, 'a']
  ])('opens a file with %s', async (_what, plain, name) => {
    const file = (await client().open(await sendPlain(Buffer.from(plain)))) as File
    expect([file.name.replace(/^\.+/, ''), await file.text()]).toEqual([name, 'hi'])
  })

  it.each([
    ['no header', ''],
    ['no line feed', '["a","b"]x'],
    ['an object', '{"0":"a","1":"b"}\n'],
    ['null', 'null\n'],
    ['one text', '["a"]\n'],
    ['numbers', '[1,2]\n'],
    ['invalid JSON', '["a","b"\n'],
    ['deep JSON', `${'['.repeat(4_000)}\n`],
    ['more than 4096 bytes', `["a",${' '.repeat(4_088)}""]\nhi`]
  ])('refuses a file whose header is %s', async (_what, header) => {
    const work = client().open(await sendPlain(Buffer.from(`\u0002${header}`)))
    await expect(work).rejects.toMatchObject({ code: 'KEY' })
  })

  it('needs File only to send or open one', async () => {
    const uri = await client().send(new File([], 'a'))
    const { File: NodeFile } = globalThis
    Object.assign(globalThis, { File: undefined })
    try {
      expect(await client().open(await client().send('Hello'))).toBe('Hello')
      await expect(client().open(uri)).rejects.toMatchObject({ code: 'KEY' })
    } finally {
      Object.assign(globalThis, { File: NodeFile })
    }
  })

  it('sends no token to the relay if it has no wallet', async () => {
    const open = await startTestRelay({ RELAY_OPEN_READS: 'true' })
    afterTest(open.end)
    const url = await startServer(open.listener)
    const uri = await client({ url }).send('Hello')
    const lifetimes: number[] = []
    expect(await new RelayClient({ url }).open(uri, { onExpiresIn: (seconds) => lifetimes.push(seconds) })).toBe(
      'Hello'
    )
    expect(lifetimes).toEqual([604_800])
  })

  it.each([
    ['3600', [3600]],
    [undefined, []],
    ['soon', []]
  ])('reports how long the relay stores the file if File-Expires-In is %s', async (header, expected) => {
    const fetchWith = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
      const answer = await fetch(url, init)
      return new Response(await answer.text(), header === undefined ? {} : { headers: { 'File-Expires-In': header } })
    }
    const lifetimes: number[] = []
    const onExpiresIn = (seconds: number): void => void lifetimes.push(seconds)
    expect(await client({ fetch: fetchWith }).send('Hello', { onExpiresIn })).toMatch(/^relay:/)
    // The responses to the client's logins contain no file.
    expect(lifetimes).toEqual(expected)
    await client({ fetch: fetchWith }).open(await client().send('Hello'), { onExpiresIn })
    expect(lifetimes).toEqual([...expected, ...expected])
  })

  it('creates a link that a phone opens, and opens it', async () => {
    const uri = await client().send('Hello')
    const link = client().link(uri, 'https://app.example/open?lang=en#old')
    expect(link).toBe(`https://app.example/open?lang=en#r=${uri.slice(8).replace('#', '.')}`)
    expect(await client().open(link)).toBe('Hello')
    expect(await client().open(`  ${client().link(link, 'http://localhost:3000/')}\n`)).toBe('Hello')
    expect(await client().open(`${link}&until=1800000000#&r=`)).toBe('Hello')
  })

  it('posts the documented form under the CID of its bytes, which the relay cannot read', async () => {
    const uri = await client().send('The treasure')
    const [, cid = '', key = ''] = /^relay:\/\/(\w+)#(.+)$/.exec(uri) ?? []
    const { file } = (await getFile(relay, await logIn(relay, createNumberedWallet(3)), cid)).body
    expect(cidOf(Buffer.from(file))).toBe(cid)
    const bytes = Buffer.from(file, 'base64url')
    const imported = await crypto.subtle.importKey('raw', Buffer.from(key, 'base64url'), 'AES-GCM', false, ['decrypt'])
    const algorithm = { name: 'AES-GCM', iv: bytes.subarray(0, 12), additionalData: Buffer.from('relay:1') }
    const content = Buffer.from(await crypto.subtle.decrypt(algorithm, imported, bytes.subarray(12)))
    expect(content.toString()).toBe('\u0001The treasure')
  })

  it('never sends the key in a URL, a header or a body, whatever fails', async () => {
    const { url, sent, close } = await startRecordedRelay()
    const relayClient = client({ url })
    const uri = await relayClient.send('The treasure')
    const key = uri.slice(-43)
    const gateways = [url]
    const failures: unknown[] = []
    await relayClient.open(uri, { gateways })
    await relayClient.open(relayClient.link(uri, 'https://app.example'))
    const wrongUri = uri.replace(/.{43}$/, 'A'.repeat(43))
    const missing = uri.replace(/baf\w{56}/, `bafkrei${'a'.repeat(52)}`)
    for (const invalidUri of [wrongUri, missing, `${uri}x`, uri.slice(1)]) {
      await relayClient.open(invalidUri, { gateways }).catch((error: unknown) => failures.push(error))
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

  it('signs once for concurrent calls, and again when the token has expired', async () => {
    const wallet = watched(4)
    const relayClient = client({ wallet })
    const uris = await Promise.all(['a', 'b', 'c'].map((text) => relayClient.send(text)))
    expect(await Promise.all(uris.map((uri) => relayClient.open(uri)))).toEqual(['a', 'b', 'c'])
    expect(wallet.signed).toEqual([
      expect.stringMatching(/^Login to relay\.example\nVerification code: [0-9a-f]{128}$/)
    ])
    relay.clock.seconds += 601
    expect(await Promise.all(uris.map((uri) => relayClient.open(uri)))).toEqual(['a', 'b', 'c'])
    expect(wallet.signed).toHaveLength(2)
  })

  it('logs in with a given credential, without a signature by the wallet', async () => {
    const wallet = watched(5)
    const credential = (challenge: string, did: string) =>
      loginCredential({ ...createNumberedWallet(5), did }, challenge)
    const relayClient = client({ wallet, credential, network: 'rsk:testnet' })
    expect(await relayClient.open(await relayClient.send('Hello'))).toBe('Hello')
    expect(wallet.signed).toEqual([])
  })

  it('requests a new challenge if the first was too old', async () => {
    const wallet = createWatchedWallet(
      createNumberedWallet(6),
      () => (relay.clock.seconds += wallet.signed.length === 1 ? 400 : 0)
    )
    await client({ wallet }).send('Hello')
    expect(wallet.signed).toHaveLength(2)
  })

  it('opens a text of another client only in this form', async () => {
    const token = await logIn(relay, createNumberedWallet(7))
    const { cid } = (await postFile(relay, token, 'not encrypted at all')).body
    await expect(client().open(`relay://${cid}#${'A'.repeat(43)}`)).rejects.toMatchObject({ code: 'KEY' })
  })
})
