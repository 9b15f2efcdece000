import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { RelayClient, type RelayClientOptions } from 'express-did-auth/client/relay'
import { listenAt, type HttpAddress } from '../support/http-address.js'
import { startTestRelay, type TestRelay } from '../support/relay-app.js'
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

/** A wallet as a caller would write one. */
const plainWallet = (number = 1) => ({ address: walletOf(number).address, signMessage: walletOf(number).personalSign })

const client = (options: Partial<RelayClientOptions> = {}): RelayClient =>
  new RelayClient({ url: address.url, wallet: plainWallet(), domain: 'relay.example', ...options })

describe('RelayClient', () => {
  it.each([
    ['a text', 'The treasure lies under the old oak 🌳'],
    ['an empty text', ''],
    ['bytes', Uint8Array.from({ length: 1_000 }, (_, index) => index % 256)],
    ['no bytes', new Uint8Array()],
    ['a text of 1 MiB', 'ä'.repeat(524_288)],
    ['bytes of a large file', new Uint8Array(5_000_000).fill(7)]
  ])('sends %s, and opens it with another wallet', async (_what, content) => {
    const uri = await client().send(content)
    expect(uri).toMatch(/^relay:\/\/baf[a-z2-7]{56}#[\w-]{43}$/)
    const opened = await client({ wallet: plainWallet(2) }).open(uri)
    // Jest compares large arrays number by number, which takes half a minute.
    expect(typeof opened).toBe(typeof content)
    expect(Buffer.compare(Buffer.from(opened), Buffer.from(content))).toBe(0)
  })
})
