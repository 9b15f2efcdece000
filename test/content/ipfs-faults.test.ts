import { afterEach, describe, expect, it } from '@jest/globals'
import { ipfsHttpNode, type IpfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import type { ServerErrorCode } from '../../servers/shared/http/server-error.js'
import { startFaultyNode, type FaultyIpfsNode } from '../support/faulty-ipfs-node.js'
import { ipfsFaults, ipfsVerbs, otherCid, type IpfsFault, type IpfsVerb } from '../support/ipfs-faults.js'

const DEADLINE_MILLISECONDS = 500
const bytes = Buffer.from('0123456789')
const cid = 'bafkreiee3cmhp4guaqppw27zdilpajepf7kxhzvpaxaz7fv63opyql3yqi'

const AWAY = 'ERR_NODE_AWAY'
const SLOW = 'ERR_NODE_SLOW'
const NONSENSE = 'ERR_NODE_NONSENSE'

/** What a verb says of a fault. `ok` where it cannot matter, or nobody could see it. */
const expected: Readonly<
  Record<IpfsFault, ServerErrorCode | Partial<Record<IpfsVerb | 'else', ServerErrorCode | 'ok'>>>
> = {
  refuses: AWAY,
  resets: AWAY,
  'is silent': SLOW,
  'answers 401': NONSENSE,
  'answers 500': AWAY,
  'answers 503': AWAY,
  'answers 404 without end': NONSENSE,
  'answers 500 without end': NONSENSE,
  redirects: NONSENSE,
  'speaks no HTTP': NONSENSE,
  'is slow': SLOW,
  'is silent after the head': SLOW,
  drips: SLOW,
  'cuts off': AWAY,
  'answers nothing': { 'pin/ls': 'ok', else: NONSENSE },
  'answers another cid': { 'pin/ls': 'ok', version: 'ok', else: NONSENSE },
  'answers no cid': { cat: 'ok', else: NONSENSE },
  'answers garbage': NONSENSE,
  'answers a page': NONSENSE,
  'answers other bytes': { cat: NONSENSE, else: 'ok' },
  'answers a line without end': NONSENSE,
  // Four million pins, which is the bound, do not arrive in the time of this test.
  'answers lines without end': { 'pin/ls': SLOW, else: NONSENSE },
  'answers a compressed line': NONSENSE
}

const table = ipfsFaults.flatMap((fault) => ipfsVerbs.map((verb) => ({ fault, verb })))

function expectedOf(fault: IpfsFault, verb: IpfsVerb): string {
  const codes = expected[fault]
  return typeof codes === 'string' ? codes : (codes[verb] ?? codes.else ?? 'ok')
}

function ask(node: IpfsHttpNode, verb: IpfsVerb): Promise<unknown> {
  if (verb === 'add') return node.add(cid, bytes)
  if (verb === 'cat') return node.read(cid, 1_048_576)
  if (verb === 'pin/ls') return node.listPins()
  if (verb === 'pin/rm') return node.unpin(cid)
  return node.ping(new AbortController().signal)
}

async function codeOf(asked: Promise<unknown>): Promise<string> {
  try {
    await asked
    return 'ok'
  } catch (error) {
    const { name, code } = error as { name: string; code: string }
    return name === 'ServerError' ? code : String(error)
  }
}

describe('ipfsHttpNode with a node that fails', () => {
  let faulty: FaultyIpfsNode
  let node: IpfsHttpNode
  async function start(deadlineMilliseconds = DEADLINE_MILLISECONDS): Promise<void> {
    faulty = await startFaultyNode({ slowMilliseconds: 60_000 })
    node = ipfsHttpNode(faulty.url, { deadlineMilliseconds, listMilliseconds: deadlineMilliseconds })
    expect(await codeWhenWell('add')).toBe('ok')
  }
  /** When the machine stands still for a moment, also a good node is too slow for so short a deadline. */
  async function codeWhenWell(verb: IpfsVerb): Promise<string> {
    let code: string = SLOW
    for (let tries = 0; code === SLOW && tries < 10; tries += 1) code = await codeOf(ask(node, verb))
    return code
  }
  afterEach(async () => {
    node.close()
    await faulty.stop()
  })

  it.each(table)('$verb: a node that $fault', async ({ fault, verb }) => {
    await start()
    await faulty.fail(fault)
    const startedAt = performance.now()
    expect(await codeOf(ask(node, verb))).toBe(expectedOf(fault, verb))
    expect(performance.now() - startedAt).toBeLessThan(DEADLINE_MILLISECONDS + 1_000)

    await faulty.heal()
    expect(await codeWhenWell('add')).toBe('ok')
    expect(await codeWhenWell(verb)).toBe('ok')
  })

  // Endless answers of one process to itself leave no time for others.
  const quietFaults = ipfsFaults.filter((fault) => !fault.endsWith('without end'))
  it.each(quietFaults.map((fault) => ({ fault })))(
    'fails 20 calls at once, each for itself: $fault',
    async ({ fault }) => {
      await start(1_000)
      await faulty.fail(fault)
      // One pin is taken off only once.
      const verbs = ipfsVerbs.filter((verb) => verb !== 'pin/rm')
      const asked = Array.from({ length: 20 }, (_, index) => verbs[index % verbs.length]!)
      const codes = await Promise.all(asked.map((verb) => codeOf(ask(node, verb))))
      expect(codes).toEqual(asked.map((verb) => expectedOf(fault, verb)))
    }
  )

  it('sends nothing where a redirect points to', async () => {
    await start()
    await faulty.fail('redirects')
    await Promise.all(ipfsVerbs.map((verb) => codeOf(ask(node, verb))))
    expect(faulty.redirected()).toBe(0)
  })

  it('believes no list that names another cid: it says what the node says', async () => {
    await start()
    await faulty.fail('answers another cid')
    expect(await node.listPins()).toEqual(new Set([otherCid]))
  })

  it.each(['is silent', 'is silent after the head', 'drips', 'answers lines without end'] as const)(
    'closes the connections of calls that it gave up: %s',
    async (fault) => {
      await start()
      await faulty.fail(fault)
      const asked = Promise.all(Array.from({ length: 10 }, () => codeOf(ask(node, 'pin/ls'))))
      await until(() => faulty.underWay() > 0)
      await asked
      await until(() => faulty.underWay() === 0)
    }
  )

  it.each([
    'answers 404 without end',
    'answers 500 without end',
    'answers a line without end',
    'answers lines without end',
    'answers a compressed line'
  ] as const)('holds less than 48 MiB of what 5 calls are sent: %s', async (fault) => {
    await start(1_000)
    await faulty.fail(fault)
    await codeOf(ask(node, 'version'))
    const before = process.memoryUsage().rss
    let most = 0
    const timer = setInterval(() => (most = Math.max(most, process.memoryUsage().rss - before)), 5)
    await Promise.all(ipfsVerbs.map((verb) => codeOf(ask(node, verb))))
    clearInterval(timer)
    expect(Math.max(most, process.memoryUsage().rss - before)).toBeLessThan(48 * 1_048_576)
  })

  it('leaves no unhandled rejection and no warning behind', async () => {
    const events: unknown[] = []
    const note = (event: unknown): void => void events.push(event)
    process.on('unhandledRejection', note).on('warning', note)
    try {
      await start(100)
      for (const fault of ipfsFaults) {
        await faulty.fail(fault)
        await Promise.all(Array.from({ length: 15 }, (_, index) => codeOf(ask(node, ipfsVerbs[index % 5]!))))
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    } finally {
      process.off('unhandledRejection', note).off('warning', note)
    }
    expect(events).toEqual([])
  }, 20_000)
})

/** Waits for at most 2 s. */
async function until(isSo: () => boolean): Promise<void> {
  const end = performance.now() + 2_000
  while (!isSo()) {
    if (performance.now() > end) throw new Error('it did not happen')
    await new Promise(setImmediate)
  }
}
