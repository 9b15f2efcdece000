import { afterEach, describe, expect, it, jest } from '@jest/globals'
import type { RequestListener } from 'node:http'
import { listenAt } from '../support/client-error.js'
import { startTestRelay } from '../support/relay-app.js'
import { setEnvironment } from '../support/run-script.js'
import { testVault } from '../support/vault-app.js'

afterEach(() => {
  jest.restoreAllMocks()
})

/** Runs an example at a server whose login domain is its address. Answers what it printed. */
async function printedBy(
  load: () => Promise<unknown>,
  variable: string,
  start: (env: Record<string, string>) => Promise<{ listener: RequestListener; end: () => Promise<void> }>
): Promise<unknown[][]> {
  let listener: RequestListener = () => undefined
  const address = await listenAt((req, res) => {
    listener(req, res)
  })
  const server = await start({ LOGIN_DOMAINS: new URL(address.url).host })
  listener = server.listener
  const undo = setEnvironment({ [variable]: address.url })
  const log = jest.spyOn(console, 'log').mockReturnValue(undefined)
  try {
    await load()
    return log.mock.calls
  } finally {
    undo()
    await address.close()
    await server.end()
  }
}

describe('examples/relay-qr.ts', () => {
  it('prints a QR code and its link, and what the recipient reads', async () => {
    const printed = await printedBy(() => import('../../examples/relay-qr.js'), 'RELAY_URL', startTestRelay)
    expect(printed).toEqual([
      [expect.stringMatching(/^[ ▀▄█\n]{500,}$/)],
      [expect.stringMatching(/^https:\/\/app\.example\/open#r=bafkrei[a-z2-7]{52}\.[\w-]{43}$/)],
      ['Bob reads:', 'The treasure lies under the old oak']
    ])
  })
})

describe('examples/vault-notes.ts', () => {
  it('keeps both notes, which strangers cannot read', async () => {
    const start = async (env: Record<string, string>) => {
      const vault = await testVault(env)
      return { listener: vault.listener, end: () => vault.close() }
    }
    const printed = await printedBy(() => import('../../examples/vault-notes.js'), 'VAULT_URL', start)
    expect(printed).toEqual([
      ['It was changed elsewhere meanwhile. Load it again, and repeat your change.'],
      ['Notes:', ['Buy oak', 'Call Bob']],
      ['What everybody can read:', [expect.stringMatching(/^eda1\.[\w-]{16}\./), expect.stringMatching(/^eda1\./)]]
    ])
  })
})
