import { describe, expect, it } from '@jest/globals'
import { fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { startRpcNode } from '../support/rpc-node.js'

const script = fileURLToPath(new URL('../support/close-while-resolving.ts', import.meta.url))

describe('requireDid.close() while an issuer is being resolved', () => {
  it('answers the sign up 503 at once and lets the process end, with nothing on its console', async () => {
    const events = new EventEmitter()
    const asked = once(events, 'asked')
    const node = await startRpcNode(() => events.emit('asked'))
    const child = fork(script, [node.rpcUrl], { execArgv: ['--import', 'tsx'], stdio: 'pipe' })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const statuses: unknown[] = []
    child.on('message', (status) => statuses.push(status))
    const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))

    await Promise.race([asked, exit])
    const start = performance.now()
    if (child.connected) child.send('close')
    const code = await exit
    const milliseconds = performance.now() - start
    node.stop()

    expect({ code, statuses, output }).toEqual({ code: 0, statuses: [503], output: '' })
    // Far from the 3 s that the node would have been given.
    expect(milliseconds).toBeLessThan(2_000)
  }, 30_000)
})
