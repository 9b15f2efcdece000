import { afterEach, describe, expect, it } from '@jest/globals'
import { createIpfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startFaultyNode, type FaultyIpfsNode } from '../../support/faults/faulty-ipfs-node.js'
import { ipfsFaults, ipfsVerbs, otherCid, type IpfsFault, type IpfsVerb } from '../../support/faults/ipfs-faults.js'
import { askNode, catchCode, deadlineFor, expectVerdict } from '../../support/faults/ipfs-verdicts.js'
import { scaled } from '../../support/fixtures/time-factor.js'
import { until } from '../../support/fixtures/until.js'

const cases = ipfsFaults.flatMap((fault) => ipfsVerbs.map((verb) => ({ fault, verb })))

describe('createIpfsHttpNode with a node that fails', () => {
  let faulty: FaultyIpfsNode
  const clients: IpfsHttpNode[] = []

  function createClient(deadlineMilliseconds: number): IpfsHttpNode {
    const client = createIpfsHttpNode(faulty.url, { deadlineMilliseconds, listMilliseconds: deadlineMilliseconds })
    clients.push(client)
    return client
  }

  /** Starts a node that stores content, and then makes it fail. */
  async function start(fault: IpfsFault): Promise<void> {
    faulty = await startFaultyNode({ slowMilliseconds: scaled(600_000) })
    await askNode(createClient(scaled(30_000)), 'add')
    await faulty.fail(fault)
  }

  afterEach(async () => {
    for (const client of clients.splice(0)) client.close()
    await faulty.stop()
  })

  it.each(cases)(
    'gives $verb the documented outcome at a node that $fault, and then works again',
    async ({ fault, verb }) => {
      await start(fault)
      expect(await catchCode(askNode(createClient(deadlineFor(fault, verb)), verb))).toBe(expectVerdict(fault, verb))

      await faulty.heal()
      const [client] = clients
      expect(await catchCode(askNode(client!, 'add'))).toBe('ok')
      expect(await catchCode(askNode(client!, verb))).toBe('ok')
    }
  )

  // Node and client share this process, in which an endless response would starve all others.
  const quietFaults = ipfsFaults.filter((fault) => !fault.endsWith('without end'))
  it.each(quietFaults.map((fault) => ({ fault })))(
    'fails each of 20 concurrent calls separately: $fault',
    async ({ fault }) => {
      await start(fault)
      // A pin can be removed only once.
      const verbs = ipfsVerbs.filter((verb) => verb !== 'pin/rm')
      const client = createClient(Math.max(...verbs.map((verb) => deadlineFor(fault, verb))))
      const calledVerbs = Array.from({ length: 20 }, (_, index) => verbs[index % verbs.length]!)
      const codes = await Promise.all(calledVerbs.map((verb) => catchCode(askNode(client, verb))))
      expect(codes).toEqual(calledVerbs.map((verb) => expectVerdict(fault, verb)))
    }
  )

  it('follows no redirect', async () => {
    await start('redirects')
    await Promise.all(ipfsVerbs.map((verb) => catchCode(askNode(clients[0]!, verb))))
    expect(faulty.redirected()).toBe(0)
  })

  it('returns the CIDs that the node lists, even if they differ from the added CID', async () => {
    await start('answers another cid')
    expect(await clients[0]!.listPins()).toEqual(new Set([otherCid]))
  })

  it.each(['is silent', 'is silent after the head', 'drips', 'answers lines without end'] as const)(
    'closes the connections of calls that timed out: %s',
    async (fault) => {
      await start(fault)
      const client = createClient(deadlineFor(fault, 'pin/ls'))
      await Promise.all(Array.from({ length: 10 }, () => catchCode(askNode(client, 'pin/ls'))))
      await until(() => faulty.underWay() === 0)
    }
  )

  it.each([
    'answers 404 without end',
    'answers 500 without end',
    'answers a line without end',
    'answers lines without end',
    'answers a compressed line'
  ] as const)('uses less than 48 MiB for the responses to 5 calls: %s', async (fault) => {
    await start(fault)
    await catchCode(askNode(clients[0]!, 'version'))
    const before = process.memoryUsage().rss
    let peakBytes = 0
    const timer = setInterval(() => (peakBytes = Math.max(peakBytes, process.memoryUsage().rss - before)), 5)
    const ask = (verb: IpfsVerb) => catchCode(askNode(createClient(deadlineFor(fault, verb)), verb))
    await Promise.all(ipfsVerbs.map(ask))
    clearInterval(timer)
    expect(Math.max(peakBytes, process.memoryUsage().rss - before)).toBeLessThan(48 * 1_048_576)
  })

  it('causes no unhandled rejection and no warning', async () => {
    const events: unknown[] = []
    const note = (event: unknown): void => void events.push(event)
    process.on('unhandledRejection', note).on('warning', note)
    try {
      await start('refuses')
      const client = createClient(100)
      for (const fault of ipfsFaults) {
        await faulty.fail(fault)
        await Promise.all(Array.from({ length: 15 }, (_, index) => catchCode(askNode(client, ipfsVerbs[index % 5]!))))
      }
      // Node reports unhandled rejections after the microtasks of the same turn.
      for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate)
    } finally {
      process.off('unhandledRejection', note).off('warning', note)
    }
    expect(events).toEqual([])
  })
})
