import { describe, expect, it } from '@jest/globals'
import { fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { ethrDidResolver } from '../../src/adapters/ethr-did-resolver.js'
import { startRpcNode } from '../support/rpc-node.js'
import { nodeOptions, scriptFile } from '../support/run-script.js'

const script = scriptFile('test/support/close-while-resolving.ts')

describe('requireDid.close() while an issuer is being resolved', () => {
  it('answers the sign up 503 at once and lets the process end, with nothing on its console', async () => {
    const events = new EventEmitter()
    const asked = once(events, 'asked')
    const node = await startRpcNode(() => events.emit('asked'))
    const child = fork(script, [node.rpcUrl], { execArgv: [...nodeOptions], stdio: 'pipe' })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const answers: unknown[] = []
    child.on('message', (answer) => answers.push(answer))
    const exit = new Promise<number | null>((resolve) => child.once('exit', resolve))

    await Promise.race([asked, exit])
    if (child.connected) child.send('close')
    const code = await exit
    node.stop()

    // Not because the node was given 3 s: that is logged in other words.
    const closed = expect.stringContaining('the resolver was closed')
    expect({ code, answers, output }).toEqual({ code: 0, answers: [{ status: 503, errors: closed }], output: '' })
  })
})

describe('a resolution by a node that is silent', () => {
  const did = `did:ethr:rsk:0x${'0'.repeat(40)}`

  it.each([
    ['signal of its caller is aborted', 'the caller left'],
    ['resolver is closed', 'the resolver was closed']
  ])('ends when the %s', async (_event, reason) => {
    const silent = new EventEmitter()
    const node = await startRpcNode((_req, res) => silent.emit('asked', res))
    const resolver = ethrDidResolver([{ name: 'rsk', rpcUrl: node.rpcUrl }], `0x${'0'.repeat(40)}`)
    const caller = new AbortController()
    const asked = once(silent, 'asked') as Promise<[ServerResponse]>
    const resolution = resolver.resolve(did, { signal: caller.signal })
    const [res] = await asked
    if (reason === 'the caller left') caller.abort(new Error(reason))
    else resolver.close()
    // A resolution that still waits ends with this answer instead.
    res.writeHead(500).end()
    await expect(resolution).rejects.toThrow(`the RPC node gave no answer: ${reason}`)
    await expect(resolver.resolve(did, { signal: caller.signal })).rejects.toThrow(/the caller left|is closed/)
    expect(node.count()).toBe(1)
    node.stop()
  })
})
