import { beforeAll, describe, expect, it } from '@jest/globals'
import type { RequestListener, ServerResponse } from 'node:http'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import { createCredentialJwt, signUp } from '../support/fixtures/credentials.js'
import { answering, answeringResults, deadRpcUrl, startRpcNode } from '../support/faults/rpc-node.js'
import { holdTime } from '../support/fixtures/hold-time.js'
import { until } from '../support/fixtures/until.js'
import { fork } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { createEthrDidResolver } from '../../src/adapters/ethr-did-resolver.js'
import { nodeOptions, scriptFile } from '../support/servers/run-script.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const user = createNumberedWallet(1)
const issuer = createNumberedWallet(2001)

interface Outcome {
  status: number
  text: string
  retryAfter: string | undefined
  log: TestApp['log']
}

/** Returns the response to one sign-up with a credential at this RPC node. */
async function outcomeAt(rpcUrl: string): Promise<Outcome> {
  const { app, requireDid, log } = await testApp({ rpcUrl, signupBusinessLogic: () => undefined })
  const { status, text, headers } = await signUp(app, user, { credentials: [createCredentialJwt(issuer, user.did)] })
  await requireDid.close()
  return { status, text, retryAfter: headers['retry-after'], log }
}

async function outcomeWith(listener: RequestListener): Promise<Outcome> {
  const node = await startRpcNode(listener)
  try {
    return await outcomeAt(node.rpcUrl)
  } finally {
    node.stop()
  }
}

const toldChainId = (then: (method: string) => object | undefined): RequestListener =>
  answeringResults((method) => (method === 'eth_chainId' ? { result: '0x1e' } : then(method)))

/** Nodes whose answer never ends. They report that they were asked. */
const silences: Record<string, (onAsked: () => void) => RequestListener> = {
  'never answers': (onAsked) => () => onAsked(),
  'stops in the middle of its answer': (onAsked) => (_req, res) => {
    res.writeHead(200, { 'Content-Length': '1000' }).write('{"jsonrpc":', onAsked)
  },
  'sends its answer drop by drop without end': (onAsked) => (_req, res) => {
    res.write('[', onAsked)
    const drops = setInterval(() => res.write(' '), 50)
    res.on('close', () => clearInterval(drops))
  },
  'never answers more than its chain id': (onAsked) =>
    toldChainId(() => {
      onAsked()
      return undefined
    })
}

const faults: Record<string, RequestListener> = {
  'sends 512 KiB and a byte': (_req, res) => {
    res.write(' '.repeat(512 * 1024 + 1))
  },
  'hangs up': (req) => {
    req.socket.destroy()
  },
  'answers 500': answering(500, '{"jsonrpc":"2.0","id":1,"result":"0x1e"}'),
  'answers 429': answering(429, 'slow down'),
  'answers HTML': answering(200, '<html>welcome</html>'),
  'answers nothing': answering(200, ''),
  'answers null': answering(200, 'null'),
  'answers a list of null': answering(200, '[null]'),
  'answers an empty list': answering(200, '[]'),
  'answers without a result': answering(200, '{"jsonrpc":"2.0","id":1}'),
  'tells a chain id that is none': answeringResults(() => ({ result: 'thirty' })),
  'tells a chain id beyond all numbers': answeringResults(() => ({ result: `0x${'f'.repeat(64)}` })),
  'answers errors': answeringResults(() => ({ error: { code: -32000, message: 'go away' } })),
  'answers errors after its chain id': toldChainId(() => ({ error: { code: -32000, message: 'go away' } })),
  'answers results of another shape': toldChainId(() => ({ result: { no: 'hex' } })),
  'answers results that are too short': toldChainId(() => ({ result: '0x01' })),
  'lost the history that the registry points to': toldChainId((method) =>
    method === 'eth_call' ? { result: `0x${'1'.padStart(64, '0')}` } : { result: [] }
  ),
  'sends the client elsewhere': (_req, res) => {
    res.writeHead(301, { Location: 'http://127.0.0.1:1/' }).end()
  }
}

describe('POST /signup with a faulty RPC node', () => {
  const outcomes = new Map<string, Outcome>()

  beforeAll(async () => {
    const time = holdTime()
    for (const [name, listener] of Object.entries(faults)) outcomes.set(name, await outcomeWith(listener))
    outcomes.set('is unreachable', await outcomeAt(await deadRpcUrl()))
    for (const [name, createListener] of Object.entries(silences)) {
      let isAsked = false
      const outcome = outcomeWith(createListener(() => (isAsked = true)))
      await until(() => isAsked)
      time.end(3_000)
      outcomes.set(name, await outcome)
    }
    time.restore()
    outcomes.set('has an unknown host name', await outcomeAt('http://nobody.invalid'))
  })

  it.each([...Object.keys({ ...silences, ...faults }), 'is unreachable', 'has an unknown host name'])(
    'responds 503 with Retry-After if the node %s',
    (name) => {
      const { status, text, retryAfter } = outcomes.get(name)!
      expect({ status, text, retryAfter }).toEqual({
        status: 503,
        text: 'DID resolver unavailable, try again',
        retryAfter: '10'
      })
    }
  )

  it('logs once that the node never responds', () => {
    const errors = outcomes.get('never answers')!.log.filter(({ level }) => level === 'error')
    expect(errors).toHaveLength(1)
    expect(JSON.stringify(errors)).toMatch(/did not answer within 3 s|took longer than 3 s/)
  })

  // Cause: a response of any length was read completely.
  it('stops reading a response of 512 KiB and a byte', () => {
    const { log } = outcomes.get('sends 512 KiB and a byte')!
    expect(JSON.stringify(log)).toContain('more than 512 KiB')
  })

  it('logs the code of the operating system for an unreachable node', () =>
    expect(JSON.stringify(outcomes.get('is unreachable')!.log)).toContain('ECONNREFUSED'))
})

describe('an RPC URL that holds a key', () => {
  it('sends it to the node, as path and as basic authentication, and never to the log', async () => {
    const asked: unknown[] = []
    const node = await startRpcNode((req, res) => {
      asked.push([req.url, req.headers.authorization])
      res.writeHead(403).end('wrong key: s3cret-path and s3cret-word')
    })
    const { status, log } = await outcomeAt(
      node.rpcUrl.replace('http://', 'http://me:s3cret-word@') + '/v3/s3cret-path'
    )
    node.stop()
    expect(status).toBe(503)
    // Base64 of me:s3cret-word.
    expect(asked).toEqual([['/v3/s3cret-path', 'Basic bWU6czNjcmV0LXdvcmQ=']])
    expect(log.filter(({ level }) => level === 'error')).toHaveLength(1)
    expect(JSON.stringify(log)).not.toContain('s3cret')
  })
})

describe('an issuer with a history that outlasts the deadline', () => {
  it('causes no further requests after the response to its sign-up', async () => {
    // Each response points to one more change, in an endless history of owner changes.
    const topic = '0x38a5a6e68f30ed1ab45860a4afb34bcb2fc00f22ca462d249b8a8d40cda6f7a3'
    const identity = `0x${issuer.address.slice(2).toLowerCase().padStart(64, '0')}`
    let block = 1_000_000
    let answered = 0
    const node = await startRpcNode((req, res) => {
      const listener = toldChainId((method) => {
        const word = (value: number): string => value.toString(16).padStart(64, '0')
        if (method === 'eth_call') return { result: `0x${word(block)}` }
        block -= 1
        const log = {
          address: '0xdca7ef03e98e0dc2b855be647c39abe984fcf21b',
          topics: [topic, identity],
          data: `0x${identity.slice(2)}${word(block)}`,
          blockNumber: `0x${(block + 1).toString(16)}`,
          blockHash: `0x${word(1)}`,
          transactionHash: `0x${word(2)}`,
          transactionIndex: '0x0',
          logIndex: '0x0',
          removed: false
        }
        return { result: [log] }
      })
      res.once('close', () => (answered += 1))
      listener(req, res)
    })
    const time = holdTime()
    const outcome = outcomeAt(node.rpcUrl)
    await until(() => node.count() > 5)
    time.end(3_000)
    const { status } = await outcome
    time.restore()
    const countThen = node.count()
    // The next part of the history would be requested as soon as the response in flight arrives.
    await until(() => answered === countThen)
    for (let round = 0; round < 100; round += 1) await new Promise(setImmediate)
    const countNow = node.count()
    node.stop()
    expect(status).toBe(503)
    expect(countThen).toBeGreaterThan(5)
    expect(countNow).toBe(countThen)
  })
})

const script = scriptFile('test/support/servers/close-while-resolving.ts')

describe('requireDid.close() while an issuer is being resolved', () => {
  it('responds 503 to the sign-up immediately and lets the process exit, without console output', async () => {
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

    // Not the 3 s timeout of the node, which has another log message.
    const closed = expect.stringContaining('the resolver was closed')
    expect({ code, answers, output }).toEqual({ code: 0, answers: [{ status: 503, errors: closed }], output: '' })
  })
})

describe('a resolution with a node that does not respond', () => {
  const did = `did:ethr:rsk:0x${'0'.repeat(40)}`

  it.each([
    ['signal of its caller is aborted', 'the caller left'],
    ['resolver is closed', 'the resolver was closed']
  ])('ends when the %s', async (_event, reason) => {
    const silent = new EventEmitter()
    const node = await startRpcNode((_req, res) => silent.emit('asked', res))
    const resolver = createEthrDidResolver([{ name: 'rsk', rpcUrl: node.rpcUrl }], `0x${'0'.repeat(40)}`)
    const caller = new AbortController()
    const asked = once(silent, 'asked') as Promise<[ServerResponse]>
    const resolution = resolver.resolve(did, { signal: caller.signal })
    const [res] = await asked
    if (reason === 'the caller left') caller.abort(new Error(reason))
    else resolver.close()
    // A resolution that still waits ends with this response instead.
    res.writeHead(500).end()
    await expect(resolution).rejects.toThrow(`the call to the RPC node failed: ${reason}`)
    await expect(resolver.resolve(did, { signal: caller.signal })).rejects.toThrow(/the caller left|is closed/)
    expect(node.count()).toBe(1)
    node.stop()
  })
})
