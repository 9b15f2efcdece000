import { beforeEach, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { systemClock } from '../../../src/time.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { startServer } from '../../support/fixtures/client-error.js'
import { root } from '../../support/fixtures/documents.js'
import { startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'

const run = promisify(execFile)
let url: string

beforeEach(async () => {
  // The relay has to know its URL when it starts.
  const started: { relay?: TestRelay } = {}
  url = await startServer((req, res) => started.relay?.listener(req, res))
  const relay = await startTestRelay({}, { serviceUrl: url })
  started.relay = relay
  relay.clock.seconds = systemClock.nowSeconds()
  afterTest(relay.end)
})

const runClient = (RELAY: string) => {
  const env = { ...process.env, RELAY, WALLET_KEY: '01'.repeat(32) }
  return run('python3', [join(root, 'examples/relay_client.py'), 'The old oak'], { env })
}

describe('examples/relay_client.py', () => {
  it('logs in with a credential, posts a text and reads it back', async () => {
    expect((await runClient(url)).stdout).toMatch(/^relay:\/\/baf[a-z2-7]+\nThe old oak\n$/)
  })

  it('prints which rule refuses its credential', async () => {
    const refused = runClient(url.replace('127.0.0.1', 'localhost'))
    const reason = `"reason":"aud; expected absent, or ${url}"`
    await expect(refused).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining(reason) as unknown })
  })
})
